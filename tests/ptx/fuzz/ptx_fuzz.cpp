// A libFuzzer target for the PTX parser and printer: cmake -DPTXBUILDER_FUZZ=ON -DCMAKE_CXX_COMPILER=clang++.
#include <cstdlib>

#include "round_trip.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ptxbuilder::test;
  if (round_trip({reinterpret_cast<const char*>(data), size}) == RoundTrip::different) std::abort();
  return 0;
}
