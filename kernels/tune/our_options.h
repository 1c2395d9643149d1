// The options of the project's own contenders.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ptxbuilder::bench {

struct OurOptions {
  std::string ptxas;              // path of ptxas; "": search for it
  bool driver_assembles = false;  // whether the driver compiles PTX even if ptxas is available
  bool cache = true;
  std::vector<std::string> tiles;  // tiles to compare with the chosen one: see kernels/gemm/config.h
  int candidates = 0;              // number of the model's first candidates to add
  int diverse = 0;                 // number of tiles to add with predictions up to 1.5 times the shortest
  bool tuned = false;  // whether to add Matmul, which measures its tiles when a shape first occurs
  uint64_t seed = 0;   // seed for choosing the `diverse` tiles
};

}  // namespace ptxbuilder::bench
