// The options of the project's own contenders.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ptxbuilder::bench {

struct OurOptions {
  std::string ptxas;              // a file; else it is searched
  bool driver_assembles = false;  // though there is a ptxas
  bool cache = true;
  std::vector<std::string> tiles;  // to compare with the one that is chosen: see kernels/gemm/config.h
  int candidates = 0;              // of the model's, the first so many too
  int diverse = 0;                 // and so many of those that it holds for up to half slower than its first
  bool tuned = false;              // and Matmul, which measures its tiles when a shape comes first
  uint64_t seed = 0;               // by which those are drawn
};

}  // namespace ptxbuilder::bench
