// Has what the commands share that assemble.
#pragma once

#include "kernels/family/command_line.h"
#include "ptxbuilder/compile/assemble.h"

namespace ptxbuilder::command {

// Adds --waive, which takes the names that check() of notes.h takes.
void add_waive(const Arguments& app, std::vector<std::string>& waived);

// Says on standard error why what was assembled could not be kept, once in a program: no error, since all
// else works, but slower each time.
void tell_cache_problem(const Assembled& assembled);

// Warns on standard error of defects of ptxas that what was assembled may meet, each once in a program.
void tell_defects(const Assembled& assembled);

}  // namespace ptxbuilder::command
