// The commands of `ptxb` that are more than a verb and a kernel: one file each, which registers itself.
#pragma once

#include <functional>
#include <vector>

namespace CLI {
class App;
}

namespace ptxbuilder::command {

// A subcommand that was added to the command line, and what to do when it was chosen; the result is the exit
// code. `run` may throw Error.
struct Command {
  CLI::App* app;
  std::function<int()> run;
};

// `const CommandRegistration registration(add);` in the command's file. `add` adds one subcommand with its
// options to the `ptxb` that it is given. CLI11 keeps references to what options set: keep that in a
// shared_ptr which `run` holds.
struct CommandRegistration {
  explicit CommandRegistration(Command (*add)(CLI::App& ptxb));
};

// Adds all that are registered, by file.
std::vector<Command> add_commands(CLI::App& ptxb);

}  // namespace ptxbuilder::command
