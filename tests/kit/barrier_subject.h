// Kernels that only pass numbers at barriers.
#pragma once

#include "mutation_subject.h"

namespace ptxbuilder::test {

// Two warpgroups: one fills a ring of `slots` buffers with a word for each thread, `rounds` times in total,
// and the other adds them up. Both track the phases of `slots` barriers.
Subject ring(int slots, int rounds);

// A cluster of CTAs, alone in its grid: in each round every CTA writes its number into its own shared memory,
// and adds up those of the CTAs in line along the axes ("x", "y", "xz", "xyz").
Subject meeting(std::array<uint32_t, 3> cluster, const std::string& axes, int rounds);

// A cluster of CTAs, alone in its grid, with a pipeline of two stages that are filled `rounds` times. A stage
// has a tile for each of `axes`, along which the cluster is equally wide: the CTAs in line along the axis
// share its load. Every CTA adds up the words of its stages, and ends after all have synchronized or, if
// consumers know the total, alone.
Subject relay(std::array<uint32_t, 3> cluster, const std::string& axes, int rounds, bool total_is_known);

}  // namespace ptxbuilder::test
