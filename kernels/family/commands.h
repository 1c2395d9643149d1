// Registers the commands of `ptxb` that do not have the form VERB KERNEL. Each command has its own file,
// which registers it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/family/command_line.h"

namespace ptxbuilder::command {

// A subcommand that has been added to the command line. `run` is called if the subcommand is chosen. It
// returns the exit code, and may throw Error.
struct Command {
  Arguments arguments;
  std::function<int()> run;
  bool takes_kernel = false;  // the first word is the name of a kernel, and errors name a line of the
                              // kernel's code
};

// Registers a command. The command's file defines `const CommandRegistration registration(add);`. `add` adds
// one subcommand with its options to `ptxb`, or to the command `of`, such as "tune". The function `run` of
// the Command owns the variables that the options set, through a shared_ptr.
struct CommandRegistration {
  explicit CommandRegistration(Command (*add)(const Arguments& to), const char* of = "");
};

// Adds all registered commands, in the order of their files.
std::vector<Command> add_commands(const Arguments& to, const std::string& of = "");

}  // namespace ptxbuilder::command
