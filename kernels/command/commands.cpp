#include "kernels/command/commands.h"

#include <filesystem>
#include <fstream>
#include <iterator>

namespace ptxbuilder::command {
namespace {

std::vector<Command (*)(const Arguments&)>& registered() {
  static std::vector<Command (*)(const Arguments&)> all;
  return all;
}

}  // namespace

CommandRegistration::CommandRegistration(Command (*add)(const Arguments&)) { registered().push_back(add); }

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (std::filesystem::is_directory(path)) throw Error(path + ": cannot be read: it is a folder");
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (!file) throw Error(path + ": cannot be read");
  return text;
}

std::vector<Command> add_commands(const Arguments& ptxb) {
  std::vector<Command> commands;
  for (auto* add : registered()) commands.push_back(add(ptxb));
  return commands;
}

}  // namespace ptxbuilder::command
