// Checks a row of the user's own with ptxas. ptxas must accept the row at its minimum target and .version,
// but not below.
#pragma once

#include <string_view>

#include "ptxbuilder/compile/ptxas.h"
#include "ptxbuilder/isa/row.h"

namespace ptxbuilder {

// Assembles modules that contain only the row: for its lowest target and .version, with the least and
// greatest numbers that may replace registers, for the previous .version, and for all other targets. ptxas
// must reject the row for targets that the row excludes. If a check fails, throws an Error that names the row
// and what to change: the syntax or a class, with the message of ptxas, or a minimum that is too low or too
// high.
void certify(const Ptxas& ptxas, const isa::Row& row, Where where = Where::here());

// Returns whether ptxas reports, in `message`, that a target or a .version does not support a feature. Other
// messages are about mistakes in the text.
bool names_a_floor(std::string_view message);

}  // namespace ptxbuilder
