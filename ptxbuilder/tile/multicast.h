// Computes the ranks and masks of the CTAs along some axes of a cluster, which share a load or meet at a
// barrier.
#pragma once

#include "ptxbuilder/ir/index.h"
#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder::detail {

// Returns this CTA's position in its cluster along x, y and z.
std::array<u32, 3> place_in_cluster();

// Returns the groups that the axes form in the kernel's clusters.
MulticastGroups multicast_groups(ClusterAxes axes);

// Describes this CTA as a member of its group.
struct GroupMember {
  Index place;  // its number in the group; the first axis varies fastest
  u16 mask;     // bit r is set if the CTA of rank r is in the group
};
GroupMember group_member(const MulticastGroups& groups);

// The CTAs in line with this one along the axes are this CTA and those that differ from it along only one of
// the axes. ctas_in_line() returns their number, and rank_in_line() returns the rank of the i-th. The CTAs
// along the first axis come first.
int ctas_in_line(ClusterAxes axes);
u32 rank_in_line(ClusterAxes axes, u32 i);

}  // namespace ptxbuilder::detail
