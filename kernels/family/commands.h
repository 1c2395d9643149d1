// The commands of `ptxb` other than those of the form VERB KERNEL. Each has its own file, which registers it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/family/command_line.h"

namespace ptxbuilder::command {

// A subcommand that was added to the command line, and the function to call if it is chosen, which returns
// the exit code. `run` may throw Error.
struct Command {
  Arguments arguments;
  std::function<int()> run;
  bool takes_kernel = false;  // its first word is the name of a kernel; errors name a line of the kernel's
                              // code
};

// Registers a command; its file defines `const CommandRegistration registration(add);`. `add` adds one
// subcommand with its options to the given `ptxb`, or to the command `of`, such as "tune". `run` owns the
// variables that options set, in a shared_ptr.
struct CommandRegistration {
  explicit CommandRegistration(Command (*add)(const Arguments& to), const char* of = "");
};

// Adds all registered commands, ordered by file.
std::vector<Command> add_commands(const Arguments& to, const std::string& of = "");

}  // namespace ptxbuilder::command
