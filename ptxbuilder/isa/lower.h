// Turns a row into one inline asm call of LLVM IR: its text, constraints and effects. This code does not
// depend on LLVM, so the result of lower() can be emitted in any IR that supports LLVM's inline asm (LLVM
// Language Reference, "Inline Assembler Expressions").
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ptxbuilder/isa/row.h"

namespace ptxbuilder {

// Consecutive named PTX registers, acc0_0, acc0_1, ... They are invisible to LLVM. They hold values that must
// not be moved, copied or spilled without the author's knowledge, such as wgmma accumulators.
struct Registers {
  std::string base;
  int first = 0, count = 0;

  // Returns `length` of these registers, beginning with number `offset`.
  Registers slice(int offset, int length) const { return {base, first + offset, length}; }
};

}  // namespace ptxbuilder

namespace ptxbuilder::isa {

// The ways to fill a hole that the instruction reads. The hole can be filled with values of the caller's IR,
// each of which gets a register in the asm, with named registers, or with a number, which is written into the
// asm.
struct ValueCount {
  int count = 1;
};
using Filling = std::variant<ValueCount, Registers, int64_t>;

// A call of inline asm.
struct InlineAsm {
  std::string text;         // "@$2 mbarrier.arrive.shared::cta.b64 $0, [$1];"
  std::string constraints;  // "=l,r,b,~{memory}"

  // A register of the call: register number `item` of an operand of the row, or the guard.
  struct Register {
    static constexpr size_t kGuard = ~size_t{0};
    size_t operand;  // index in the row, or kGuard
    int item;
    Class cls;
  };
  std::vector<Register> results;  // results of the call, which returns several results as a struct
  // The arguments of the call, in this order: registers that are only read, the guard, and registers that are
  // read and written.
  std::vector<Register> arguments;

  // True if the call must not be moved, reordered or duplicated. The call must then be marked sideeffect and
  // convergent, and ~{memory} is among the constraints. Otherwise, the results depend only on the arguments,
  // and the call must be marked memory(none) and willreturn. In either case, the call must be marked
  // nounwind.
  bool stays;
};

// Lowers one instruction. `fillings` fill the operands that are read, in the row's order. If `guarded` is
// true, the instruction has a predicate as an additional argument, and runs only if the predicate is true.
// Throws Error for a wrong number of fillings or registers, a number that is out of bounds, a number for an
// operand that must be a register, or a guard that would leave a result undefined. The Error names the row,
// the operand and the rule.
InlineAsm lower(const Row& row, std::span<const Filling> fillings, bool guarded = false);

// Throws an Error such as: mbarrier_init: operand 'bar' WHAT, in "mbarrier.init..."
[[noreturn]] void refuse_operand(const Row& row, const Operand& operand, std::string_view what);

}  // namespace ptxbuilder::isa
