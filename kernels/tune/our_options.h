// The options of the project's own contenders.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ptxbuilder::bench {

struct OurOptions {
  std::string ptxas;              // a file; "" to search for it
  bool driver_assembles = false;  // even if ptxas is available
  bool cache = true;
  std::vector<std::string> tiles;  // to compare with the chosen one: see kernels/gemm/config.h
  int candidates = 0;              // the number of the model's first candidates that are added
  int diverse = 0;                 // and this many of those predicted to take up to 1.5 times as long
  bool tuned = false;              // also Matmul, which measures its tiles when a shape first occurs
  uint64_t seed = 0;               // with which those are drawn
};

}  // namespace ptxbuilder::bench
