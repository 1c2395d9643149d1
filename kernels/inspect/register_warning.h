// Warns, before ptxas runs, about a role that cannot get the registers that it needs.
#pragma once

#include <string>

#include "ptxbuilder/signature.h"

namespace ptxbuilder::command {

// Returns the warning, with the numbers and the line; "" if all roles have enough registers, according to an
// estimate.
std::string register_warning(const std::string& ptx, const Signature& signature);

// Prints the warning, if there is one, to standard error, for CompilerOptions::generated.
void warn_of_registers(const std::string& ptx, const Signature& signature);

}  // namespace ptxbuilder::command
