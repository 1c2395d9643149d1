// Tests that ranges for profilers reach a tool that the environment names, through NVIDIA's protocol.
#include <cstdlib>

#include "command_kit.h"
#include "folder_kit.h"

namespace ptxbuilder::test::nvtx_test {
namespace {

const std::string kFolder = PTXBUILDER_TEST_DIR "/runtime/nvtx";

std::string output_of(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe);
  std::string output;
  char buffer[512];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) output.append(buffer, n);
  CHECK(pclose(pipe) == 0);
  return output;
}

}  // namespace

TEST_CASE("a tool sees ranges, and without one they do nothing") {
  const Folder folder;
  const std::string compile =
      fmt::format("{} -std=c++20 -Wall -Wextra -Werror -isystem /usr/local/cuda/include ", PTXBUILDER_CXX);
  REQUIRE(output_of(fmt::format("{}-shared -fPIC {}/tool.cpp -o {}", compile, kFolder,
                                folder.path("tool.so"))) == "");
  const std::string program = folder.path("program");
  REQUIRE(output_of(fmt::format("{}-I{}/.. {}/program.cpp -o {} -ldl", compile, PTXBUILDER_TEST_DIR, kFolder,
                                program)) == "");
  CHECK(output_of(program) == "off\n");
  CHECK(output_of(fmt::format("NVTX_INJECTION64_PATH={} {}", folder.path("none.so"), program)) == "off\n");
  CHECK(output_of(fmt::format("NVTX_INJECTION64_PATH={} {}", folder.path("tool.so"), program)) ==
        "attached\n0> outer\n1> inner\n<1\non\n<0\n");
}

}  // namespace ptxbuilder::test::nvtx_test
