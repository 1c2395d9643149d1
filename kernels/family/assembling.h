// Functions that are shared by all commands that assemble a kernel.
#pragma once

#include "kernels/family/command_line.h"
#include "ptxbuilder/compile/assemble.h"

namespace ptxbuilder::command {

// Adds the option --waive. It accepts the names that check() in notes.h accepts.
void add_waive(const Arguments& app, std::vector<std::string>& waived);

// If the assembled code could not be cached, prints the reason to standard error, once per program run. This
// is not an error, but it makes each run slower.
void tell_cache_problem(const Assembled& assembled);

// Warns on standard error about defects of ptxas that may affect the assembled code; each warning appears
// once per program run.
void tell_defects(const Assembled& assembled);

}  // namespace ptxbuilder::command
