// Computes how many CTAs of a kernel can run at the same time on an SM of an H100, and what limits their
// number.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ptxbuilder/signature.h"

namespace ptxbuilder::command {

struct Occupancy {
  std::vector<std::pair<std::string, uint32_t>> limits;  // for each resource, the number of CTAs that it
                                                         // allows
  uint32_t ctas = 0;                                     // the smallest of these numbers
  std::string bound;                                     // the resource with the smallest number
  uint32_t warps = 0;                                    // warps of these CTAs; an SM has room for 64
  uint32_t clusters = 0;  // number that can run on the GPU at the same time; CTAs if there are no clusters
};

// Returns the occupancy. `registers` is the number of registers per thread at the kernel's start. If not even
// one CTA fits, throws an Error that names the resource.
Occupancy occupancy_of(const Signature& signature, uint32_t registers);

}  // namespace ptxbuilder::command
