// Uses ptxas to check a row that the user has defined. ptxas must accept the row at its minimum target and
// .version, but not below.
#pragma once

#include <string_view>

#include "ptxbuilder/compile/ptxas.h"
#include "ptxbuilder/isa/row.h"

namespace ptxbuilder {

// Assembles modules that contain only the row, for its minimum target and .version, for the previous
// .version, and for all other targets. At the minimum, also tries the smallest and largest constants that may
// replace registers. ptxas must reject the row for targets that the row excludes. If a check fails, throws an
// Error that names the row, quotes the message from ptxas, and says whether the syntax, a class or a minimum
// has to be changed.
void certify(const Ptxas& ptxas, const isa::Row& row, Where where = Where::here());

// Returns whether ptxas reports, in `message`, that a target or a .version does not support a feature. Other
// messages are about mistakes in the text.
bool names_a_floor(std::string_view message);

}  // namespace ptxbuilder
