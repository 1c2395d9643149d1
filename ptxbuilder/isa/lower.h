// Turns a row into one call of inline asm in LLVM's terms: text, constraints and effects. Nothing here
// needs LLVM, so any IR that has LLVM's inline asm can emit what lower() returns (LLVM Language Reference,
// "Inline Assembler Expressions").
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ptxbuilder/isa/row.h"

namespace ptxbuilder {

// Consecutive named PTX registers that LLVM never sees: acc0_0, acc0_1, ... They hold what must not be moved,
// copied or spilled without the author's knowledge, such as wgmma accumulators.
struct Registers {
  std::string base;
  int first = 0, count = 0;

  // `length` of these registers, from number `offset` on.
  Registers slice(int offset, int length) const { return {base, first + offset, length}; }
};

}  // namespace ptxbuilder

namespace ptxbuilder::isa {

// One of these fills a hole that the instruction reads: values of the caller's IR, for each of which the asm
// has a register; named registers instead of values; or a number, which the asm spells out.
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
  std::vector<Register> results;  // what the call returns: a struct of them if there are several
  // The call takes these, in this order: what is only read, the guard, what is read and written.
  std::vector<Register> arguments;

  // This says whether the call must stay where it is, in order, and never be duplicated. It is then
  // sideeffect and convergent, and ~{memory} is among the constraints. Otherwise its results depend on its
  // arguments alone, and it is memory(none) and willreturn. Either way it is nounwind.
  bool stays;
};

// Lowers one instruction. `fillings` are those of the operands that are read, in the row's order. If it is
// `guarded`, it runs only where a predicate is true; the predicate is one more argument. Throws Error that
// names the row, the operand and the rule: for a wrong number of fillings or registers, a number out of
// bounds, a number where the row takes only a register, and a guard where a result would be undefined.
InlineAsm lower(const Row& row, std::span<const Filling> fillings, bool guarded = false);

// Throws Error with this text: mbarrier_init: operand 'bar' WHAT, in "mbarrier.init..."
[[noreturn]] void refuse_operand(const Row& row, const Operand& operand, std::string_view what);

}  // namespace ptxbuilder::isa
