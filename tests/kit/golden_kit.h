// The PTX of the library's kernels in tests/golden.
#pragma once

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <string>

namespace ptxbuilder::test {

inline std::string golden(const std::string& name) {
  std::ifstream file(PTXBUILDER_TEST_DIR "/golden/" + name + ".ptx");
  REQUIRE_MESSAGE(file, name);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace ptxbuilder::test
