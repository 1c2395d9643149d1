// Checks a user's own row with ptxas: the row must assemble at its minimum target and .version, and not
// below.
#pragma once

#include <string_view>

#include "ptxbuilder/compile/ptxas.h"
#include "ptxbuilder/isa/row.h"

namespace ptxbuilder {

// Assembles only the row: for its lowest target and .version, with the extremes of the numbers that its
// operands may be in place of registers, for the previous .version, and for all other targets; ptxas must
// reject targets that the row lacks. Throws Error that names the row and what to change: the syntax or a
// class, with the message of ptxas, or a minimum that is too low or too high.
void certify(const Ptxas& ptxas, const isa::Row& row, Where where = Where::here());

// Returns whether a message of ptxas is about a feature that a target or .version lacks, not about the text.
bool names_a_floor(std::string_view message);

}  // namespace ptxbuilder
