// Computes how many CTAs of a kernel an SM of an H100 holds at once, and what bounds their number.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ptxbuilder/signature.h"

namespace ptxbuilder::command {

struct Occupancy {
  std::vector<std::pair<std::string, uint32_t>> limits;  // the CTAs for which each resource has room
  uint32_t ctas = 0;                                     // the least of these
  std::string bound;                                     // the resource with this limit
  uint32_t warps = 0;                                    // of the SM's 64
  uint32_t clusters = 0;  // that run at once on the GPU; CTAs if there are no clusters
};

// `registers` is the number per thread at the kernel's start. Throws Error that names the resource if no CTA
// fits.
Occupancy occupancy_of(const Signature& signature, uint32_t registers);

}  // namespace ptxbuilder::command
