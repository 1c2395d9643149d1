// A warning ahead of ptxas, of a role that cannot have the registers that it needs.
#pragma once

#include <string>

#include "ptxbuilder/signature.h"

namespace ptxbuilder::command {

// The warning, with the numbers and the line; "" where all roles fit, as far as an estimate can tell.
std::string register_warning(const std::string& ptx, const Signature& signature);

// Prints it to standard error where there is one, for CompilerOptions::generated.
void warn_of_registers(const std::string& ptx, const Signature& signature);

}  // namespace ptxbuilder::command
