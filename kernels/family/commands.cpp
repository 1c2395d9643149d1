#include "kernels/family/commands.h"

#include <map>

namespace ptxbuilder::command {
namespace {

using Registered = std::map<std::string, std::vector<Command (*)(const Arguments&)>>;

// Returns the registered functions, grouped by the command to which they belong.
Registered& registered() {
  static Registered all;
  return all;
}

}  // namespace

CommandRegistration::CommandRegistration(Command (*add)(const Arguments&), const char* of) {
  registered()[of].push_back(add);
}

std::vector<Command> add_commands(const Arguments& to, const std::string& of) {
  std::vector<Command> commands;
  for (auto* add : registered()[of]) commands.push_back(add(to));
  return commands;
}

}  // namespace ptxbuilder::command
