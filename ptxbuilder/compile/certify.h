// Asks ptxas whether it agrees with a row of somebody's own: that it assembles at its floor, and not below.
#pragma once

#include <string_view>

#include "ptxbuilder/compile/ptxas.h"
#include "ptxbuilder/isa/row.h"

namespace ptxbuilder {

// Assembles the row alone: for its least target and .version, with the ends of the numbers that its operands
// may be in place of registers, for one .version less, and for all other targets; ptxas must refuse those
// that the row lacks. Throws Error that names the row and what to change: the syntax or a class, with what
// ptxas says of it, or a floor that is too low or too high.
void certify(const Ptxas& ptxas, const isa::Row& row, Where where = Where::here());

// This says whether the words of ptxas are about what a target or a .version lacks, and not about the text.
bool names_a_floor(std::string_view message);

}  // namespace ptxbuilder
