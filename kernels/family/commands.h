// The commands of `ptxb` that are more than a verb and a kernel: one file each, which registers itself.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/family/command_line.h"

namespace ptxbuilder::command {

// A subcommand that was added to the command line, and what to do when it was chosen; the result is the exit
// code. `run` may throw Error.
struct Command {
  Arguments arguments;
  std::function<int()> run;
  bool takes_kernel = false;  // its first word names one, whose errors name their author's line
};

// `const CommandRegistration registration(add);` in the command's file. `add` adds one subcommand with its
// options to the `ptxb` that it is given, or to the command `of`, such as "tune". What options set, `run`
// holds in a shared_ptr.
struct CommandRegistration {
  explicit CommandRegistration(Command (*add)(const Arguments& to), const char* of = "");
};

// Adds all that are registered, by file.
std::vector<Command> add_commands(const Arguments& to, const std::string& of = "");

}  // namespace ptxbuilder::command
