// A libFuzzer target: whatever parses prints, and what was printed parses and prints the same again.
//   clang++-19 -std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined -DFMT_HEADER_ONLY -I.
//   tests/fuzz/ptx_fuzz.cpp
//     ptxbuilder/error.cpp ptxbuilder/ptx/*.cpp -o ptx_fuzz && ./ptx_fuzz corpus tests/fuzz/ptx_seeds
#include <cstdlib>

#include "ptxbuilder/error.h"
#include "ptxbuilder/ptx/ptx.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  std::string once;
  try {
    once = ptxbuilder::ptx::print(ptxbuilder::ptx::parse(text));
  } catch (const ptxbuilder::Error&) {
    return 0;
  }
  if (ptxbuilder::ptx::print(ptxbuilder::ptx::parse(once)) != once) std::abort();
  return 0;
}
