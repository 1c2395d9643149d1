// Runs two reference GEMMs from another program on the emulator.
#include <doctest/doctest.h>

#include "emulator_kit.h"

namespace ptxbuilder::runtime::emulator_gemm_test {
namespace {

const char* const files[] = {"emulator/ptx/gemm_128x256x64_bf16.ptx",
                             "emulator/ptx/gemm_128x256x64_bf16_ssa.ptx"};

TEST_CASE("emulator: the reference GEMMs verify over seeds") {
  for (const char* file : files) {
    const std::string text = test_file(file);
    for (uint64_t seed = 0; seed < 6; ++seed) {
      CAPTURE(file);
      CAPTURE(seed);
      EmulatorOptions options;
      options.seed = seed;
      std::string what;
      double error = 1e9;
      fault_of([&] { error = run_gemm(text, 256, 512, 384, seed % 2 ? 3 : 4, options); }, &what);
      CAPTURE(what);
      CHECK(error < 1);
    }
  }
}

}  // namespace
}  // namespace ptxbuilder::runtime::emulator_gemm_test
