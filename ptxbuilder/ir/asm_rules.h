// Rules of inline asm that hold across the instructions of a function, which ptxas would be the first to
// check.
#pragma once

#include <string_view>

#include "ptxbuilder/isa/lower.h"

namespace llvm {
class Function;
}  // namespace llvm

namespace ptxbuilder {

// Throws Error unless `.reg` statements of the function declare these named registers, of a type that the
// operand takes: its own, or bits of its width for a floating-point number.
void check_declared(const llvm::Function& function, const isa::Row& row, const isa::Operand& operand,
                    const Registers& registers);

// Throws Error where a tcgen05 instruction in `text` is for one CTA and an earlier one of the function for a
// pair, or the other way round (PTX ISA, ".cta_group": all of a kernel have the same).
void check_cta_group(llvm::Function& function, std::string_view text);

}  // namespace ptxbuilder
