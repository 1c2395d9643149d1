#include "kernels/command/commands.h"

namespace ptxbuilder::command {
namespace {

std::vector<Command (*)(const Arguments&)>& registered() {
  static std::vector<Command (*)(const Arguments&)> all;
  return all;
}

}  // namespace

CommandRegistration::CommandRegistration(Command (*add)(const Arguments&)) { registered().push_back(add); }

std::vector<Command> add_commands(const Arguments& ptxb) {
  std::vector<Command> commands;
  for (auto* add : registered()) commands.push_back(add(ptxb));
  return commands;
}

}  // namespace ptxbuilder::command
