// Runs the project's executables as a user does.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdio>
#include <string>

struct Ran {
  int code;
  std::string output;  // standard output and error
};

// Runs a command. `words` begins with an executable of the project. `before` precedes the command, for
// example to set a variable.
inline Ran run(const std::string& words, const std::string& before = "") {
  std::string command = fmt::format("{} {}/{} 2>&1", before, PTXBUILDER_BIN, words);
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe);
  std::string output;
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) output.append(buffer, n);
  int status = pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, output};
}

// Returns the PTX text for the compiler in use. C++ compilers evaluate operands in different orders, which
// determine the numbers of registers.
inline std::string by_compiler([[maybe_unused]] const std::string& gcc,
                               [[maybe_unused]] const std::string& clang) {
#if defined(__clang__)
  return clang;
#else
  return gcc;
#endif
}

inline bool contains(const Ran& ran, const std::string& text) {
  const bool found = ran.output.find(text) != std::string::npos;
  if (!found) MESSAGE("no '", text, "' in: ", ran.output);
  return found;
}
