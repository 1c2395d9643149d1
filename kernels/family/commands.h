// The commands of `ptxb` that are more than a verb and a kernel: each has a file, which registers it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/family/command_line.h"

namespace ptxbuilder::command {

// A subcommand that was added to the command line, and the function to call if it was chosen, which returns
// the exit code. `run` may throw Error.
struct Command {
  Arguments arguments;
  std::function<int()> run;
  bool takes_kernel = false;  // its first word names a kernel; errors name a line of the kernel's code
};

// A command's file has `const CommandRegistration registration(add);`. `add` adds one subcommand with its
// options to the `ptxb` that it is given, or to the command `of`, such as "tune". The variables that options
// set belong to `run`, in a shared_ptr.
struct CommandRegistration {
  explicit CommandRegistration(Command (*add)(const Arguments& to), const char* of = "");
};

// Adds all registered commands, sorted by file.
std::vector<Command> add_commands(const Arguments& to, const std::string& of = "");

}  // namespace ptxbuilder::command
