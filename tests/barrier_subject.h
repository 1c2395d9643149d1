// Kernels that do nothing but hand numbers over at barriers.
#pragma once

#include "mutation_subject.h"

namespace ptxbuilder::test {

// Two warpgroups: one fills a ring of `slots` buffers of a word for each thread, `rounds` times in all, the
// other adds them up. Both track the phases of `slots` barriers.
Subject ring(int slots, int rounds);

// A cluster of x x y CTAs: in each round every CTA writes its number into its own shared memory, and adds up
// those of the CTAs in line along the axes ("x", "y", "xy").
Subject meeting(uint32_t x, uint32_t y, const std::string& axes, int rounds);

}  // namespace ptxbuilder::test
