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

// `words` begin with an executable of the project; `before` is in front of it, as a variable's value.
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

// This takes the one of two texts of PTX that there is: C++ compilers evaluate operands in different orders,
// and by these registers have their numbers.
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
