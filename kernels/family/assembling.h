// Functions that all commands with an assembler share.
#pragma once

#include "kernels/family/command_line.h"
#include "ptxbuilder/compile/assemble.h"

namespace ptxbuilder::command {

// Adds --waive, which accepts the names that check() of notes.h accepts.
void add_waive(const Arguments& app, std::vector<std::string>& waived);

// Prints to standard error, once per program run, why the assembled code could not be cached. This is not an
// error: everything else works, but each run is slower.
void tell_cache_problem(const Assembled& assembled);

// Warns on standard error about defects of ptxas that may affect the assembled code; each warning appears
// once per program run.
void tell_defects(const Assembled& assembled);

}  // namespace ptxbuilder::command
