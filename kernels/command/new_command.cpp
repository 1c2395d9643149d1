// `ptxb new` creates a folder with a new kernel that can be built, run and verified immediately.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/family/commands.h"
#include "ptxbuilder/version.h"

namespace ptxbuilder::command::new_command {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct Options {
  std::string name;
  bool json = false;
};

struct File {
  std::string_view name, text;
};
// The files of examples/new; kernel.cpp becomes NAME.cpp.
constexpr File kFiles[] = {
#include "new_files.inc"
};

// The targets that CMake reserves (policy CMP0037), and those that CTest and CPack add.
constexpr std::string_view kTargetsOfCMake[] = {
    "all",     "clean",          "edit_cache", "help",          "install", "list_install_components",
    "package", "package_source", "preinstall", "rebuild_cache", "test",    "ALL_BUILD",
    "INSTALL", "PACKAGE",        "RUN_TESTS",  "ZERO_CHECK"};

// Throws Error if a name is not valid for a kernel in PTX, a CMake target, a folder and a file.
void check_name(const std::string& name) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto is_part = [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); };
  if (name.empty() || !is_letter(name[0]) || !std::all_of(name.begin(), name.end(), is_part))
    throw UsageError(
        fmt::format("'{}' cannot be the name of a kernel: a name has letters, digits and _, and does not "
                    "begin with a digit; a folder of that name is made in the working folder",
                    name));
  if (std::find(std::begin(kTargetsOfCMake), std::end(kTargetsOfCMake), name) != std::end(kTargetsOfCMake))
    throw UsageError(fmt::format(
        "'{}' is one of CMake's own targets and cannot be the name of a kernel: choose another name", name));
}

// Returns a word, quoted for the shell.
std::string quoted(const std::string& word) {
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) || c >= 0x80 || std::strchr("/._-+=:@,", c);
  };
  if (std::all_of(word.begin(), word.end(), is_plain)) return word;
  std::string text = "'";
  for (char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

// Describes how CMake finds the library that this program belongs to.
struct Package {
  std::string option;   // " -DCMAKE_PREFIX_PATH=..."; "" if CMake searches there by default
  std::string install;  // a command that installs the library; "" if the library is installed
};

Package package() {
  std::error_code none;
  const fs::path prefix = fs::read_symlink("/proc/self/exe", none).parent_path().parent_path();
  if (fs::exists(prefix / PTXBUILDER_PACKAGE_FOLDER / "ptxbuilder-kernels-targets.cmake", none)) {
    if (prefix == "/usr" || prefix == "/usr/local") return {};
    return {" " + quoted("-DCMAKE_PREFIX_PATH=" + prefix.string()), ""};
  }
  const std::string option = " -DCMAKE_PREFIX_PATH=$HOME/.local";
  if (fs::exists(prefix / "CMakeCache.txt", none))
    return {option, fmt::format("cmake --install {} --prefix $HOME/.local", quoted(prefix.string()))};
  return {option,
          "cmake --install BUILD --prefix $HOME/.local  # BUILD: the folder that ptxbuilder was built in"};
}

// Returns the text with placeholders such as @NAME@ replaced.
std::string filled(std::string_view text, const std::string& name, const std::string& prefix_option) {
  std::string filled(text);
  const std::string version = fmt::format("{}.{}", PTXBUILDER_VERSION_MAJOR, PTXBUILDER_VERSION_MINOR);
  const std::pair<std::string_view, const std::string&> words[] = {
      {"@NAME@", name}, {"@PREFIX@", prefix_option}, {"@VERSION@", version}};
  for (const auto& [word, value] : words)
    for (size_t at = 0; (at = filled.find(word, at)) != std::string::npos; at += value.size())
      filled.replace(at, word.size(), value);
  return filled;
}

void write(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) throw Error(fmt::format("{}: cannot be written", path.string()));
}

int run(const Options& o) {
  check_name(o.name);
  std::error_code failure;
  if (fs::exists(fs::symlink_status(o.name, failure)))
    throw Error(
        fmt::format("{}: it already exists, and nothing is overwritten: choose another name", o.name));
  if (!fs::create_directory(o.name, failure))
    throw Error(fmt::format("{}: the folder cannot be created: {}", o.name, failure.message()));

  const Package found = package();
  std::vector<std::string> files;
  for (const File& file : kFiles) {
    const std::string name = file.name == "kernel.cpp" ? o.name + ".cpp" : std::string(file.name);
    files.push_back((fs::path(o.name) / name).string());
    write(files.back(), filled(file.text, o.name, found.option));
  }
  std::vector<std::string> commands = {"cd " + o.name, "cmake -B build" + found.option, "cmake --build build",
                                       "ctest --test-dir build"};
  if (!found.install.empty()) commands.insert(commands.begin(), found.install);
  if (o.json)
    fmt::print("{}\n", Json{{"files", files}, {"commands", commands}}.dump());
  else
    fmt::print("wrote {}; to build and verify it, run\n\n    {}\n", fmt::join(files, ", "),
               fmt::join(commands, "\n    "));
  return 0;
}

Command add(const Arguments& ptxb) {
  const Arguments app = ptxb.command("new", "make a folder with a new kernel to start from");
  auto o = std::make_shared<Options>();
  app.option("name", o->name, "the name of the kernel, and of the folder that is made here").required();
  app.flag("--json", o->json, "print the files, and the commands that build them, as JSON");
  app.footer("The library must be installed. The command prints how to build and verify the kernel.");
  return {app, [o] { return run(*o); }};
}

const CommandRegistration registration(add);

}  // namespace ptxbuilder::command::new_command
