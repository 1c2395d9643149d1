// Warns, before ptxas runs, about a role that cannot get the registers that it needs.
#pragma once

#include <string>

#include "ptxbuilder/signature.h"

namespace ptxbuilder::command {

// Returns a warning with the numbers of registers and the line; "" if all roles are estimated to have enough
// registers.
std::string register_warning(const std::string& ptx, const Signature& signature);

// Prints the warning, if there is one, to standard error. This function is a value for
// CompilerOptions::generated.
void warn_of_registers(const std::string& ptx, const Signature& signature);

}  // namespace ptxbuilder::command
