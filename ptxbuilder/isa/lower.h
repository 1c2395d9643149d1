// From a row to one call of inline asm, as LLVM writes it: text, constraints and effects. Nothing here needs
// LLVM, so any IR that has LLVM's inline asm can emit what lower() says (LLVM Language Reference, "Inline
// Assembler Expressions").
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ptxbuilder/isa/row.h"

namespace ptxbuilder {

// Consecutive named PTX registers that LLVM never sees: acc0_0, acc0_1, ... They hold what must not be moved,
// copied or spilled behind the author's back, as wgmma accumulators.
struct Registers {
  std::string base;
  int first = 0, count = 0;

  Registers slice(int offset, int length) const { return {base, first + offset, length}; }
};

}  // namespace ptxbuilder

namespace ptxbuilder::isa {

// What fills a hole that reads: values of the caller's IR, of which the asm has a register each; named
// registers in their place; or a number, of which the asm has the digits.
struct ValueCount {
  int count = 1;
};
using Filling = std::variant<ValueCount, Registers, int64_t>;

// One call of inline asm.
struct InlineAsm {
  std::string text;         // "@$2 mbarrier.arrive.shared::cta.b64 $0, [$1];"
  std::string constraints;  // "=l,r,b,~{memory}"

  // A register of the call: item `item` of an operand of the row, or the guard.
  struct Register {
    static constexpr size_t kGuard = ~size_t{0};
    size_t operand;  // its number in the row, or kGuard
    int item;
    Class cls;
  };
  std::vector<Register> results;  // what the call yields: a struct of them where there are several
  std::vector<Register>
      arguments;  // what it takes, in order: what is read, the guard, what is read and written

  // The call stays where it is, in order, never duplicated: sideeffect, convergent, and ~{memory} is among
  // the constraints. Else its results depend on its arguments alone: memory(none), willreturn. Both are
  // nounwind.
  bool stays;
};

// Lowers one instruction. `fillings` are those of the operands that read, in the row's order; with `guarded`,
// it runs where a predicate holds, which is an argument more. Throws Error that names row, operand and rule:
// for another number of fillings or of registers, a number out of bounds, a number where the row takes a
// register only, and for a guard where a result would be undefined.
InlineAsm lower(const Row& row, std::span<const Filling> fillings, bool guarded = false);

// "mbarrier_init: operand 'bar' WHAT, in "mbarrier.init...""
[[noreturn]] void refuse_operand(const Row& row, const Operand& operand, std::string_view what);

}  // namespace ptxbuilder::isa
