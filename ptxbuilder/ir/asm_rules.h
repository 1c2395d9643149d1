// Checks rules for inline asm that involve several instructions of a function. Without these checks,
// violations would not be found until ptxas runs.
#pragma once

#include <string_view>

#include "ptxbuilder/isa/lower.h"

namespace llvm {
class Function;
}  // namespace llvm

namespace ptxbuilder {

// Throws Error unless `.reg` statements of the function declare these named registers with a type that the
// operand accepts, which is the operand's type or, for a floating-point operand, bits of the same width.
void check_declared(const llvm::Function& function, const isa::Row& row, const isa::Operand& operand,
                    const Registers& registers);

// Throws Error if `text` contains a tcgen05 instruction for one CTA and an earlier instruction of the
// function is for a pair of CTAs, or vice versa. All instructions of a kernel must use the same value (PTX
// ISA, ".cta_group").
void check_cta_group(llvm::Function& function, std::string_view text);

}  // namespace ptxbuilder
