// Computes the ranks and masks of CTAs that share a load or meet at a barrier along some axes of a cluster.
#pragma once

#include "ptxbuilder/ir/index.h"
#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder::detail {

// Returns this CTA's position in its cluster along x, y and z.
std::array<u32, 3> place_in_cluster();

// Returns the groups that the axes form in the kernel's clusters.
MulticastGroups multicast_groups(ClusterAxes axes);

// The position of this CTA in its group, and the CTAs of the group.
struct GroupMember {
  Index place;  // number of this CTA in the group; the first axis varies fastest
  u16 mask;     // bit r is set if the CTA of rank r is in the group
};
GroupMember group_member(const MulticastGroups& groups);

// Return the number of CTAs in line with this CTA, and the rank of the i-th of them. The CTAs in line are
// this CTA itself and the CTAs whose position differs along exactly one of the axes. The CTAs along the first
// axis are numbered first.
int ctas_in_line(ClusterAxes axes);
u32 rank_in_line(ClusterAxes axes, u32 i);

}  // namespace ptxbuilder::detail
