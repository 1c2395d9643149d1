// Kernels that only pass numbers at barriers.
#pragma once

#include "mutation_subject.h"

namespace ptxbuilder::test {

// Returns a kernel of two warpgroups. One fills a ring of `slots` buffers with a word for each thread,
// `rounds` times in total, and the other adds up the words. Both track the phases of `slots` barriers.
Subject ring(int slots, int rounds);

// Returns a kernel with a single cluster. In each round, every CTA writes its number into its own shared
// memory, and adds up the numbers of the CTAs in line along the axes ("x", "y", "xz", "xyz").
Subject meeting(std::array<uint32_t, 3> cluster, const std::string& axes, int rounds);

// Returns a kernel with a single cluster, and a pipeline of two stages that are filled `rounds` times. A
// stage has a tile for each of `axes`, along which the cluster is equally wide. The CTAs in line along an
// axis share the load of its tile. Every CTA adds up the words of its stages. It ends after all CTAs have
// synchronized or, if consumers know the total, independently.
Subject relay(std::array<uint32_t, 3> cluster, const std::string& axes, int rounds, bool total_is_known);

}  // namespace ptxbuilder::test
