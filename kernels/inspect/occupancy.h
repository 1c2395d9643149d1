// This tells how many CTAs of a kernel an SM of an H100 holds at once, and what bounds it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ptxbuilder/signature.h"

namespace ptxbuilder::command {

struct Occupancy {
  std::vector<std::pair<std::string, uint32_t>> limits;  // CTAs that each resource leaves room for
  uint32_t ctas = 0;                                     // the least of these
  std::string bound;                                     // by which resource
  uint32_t warps = 0;                                    // of the SM's 64
  uint32_t clusters = 0;  // that run at once on the GPU; CTAs where there are none
};

// `registers` are those of a thread at the kernel's begin. Throws Error where no CTA fits, which says by
// what.
Occupancy occupancy_of(const Signature& signature, uint32_t registers);

}  // namespace ptxbuilder::command
