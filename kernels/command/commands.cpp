#include "kernels/command/commands.h"

namespace ptxbuilder::command {
namespace {

std::vector<Command (*)(CLI::App&)>& registered() {
  static std::vector<Command (*)(CLI::App&)> all;
  return all;
}

}  // namespace

CommandRegistration::CommandRegistration(Command (*add)(CLI::App&)) { registered().push_back(add); }

std::vector<Command> add_commands(CLI::App& ptxb) {
  std::vector<Command> commands;
  for (auto* add : registered()) commands.push_back(add(ptxb));
  return commands;
}

}  // namespace ptxbuilder::command
