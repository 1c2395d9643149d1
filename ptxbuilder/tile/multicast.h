// CTAs of a cluster that share a load or meet at a barrier: those along some axes, and what names them.
#pragma once

#include "ptxbuilder/ir/index.h"
#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder::detail {

// The groups of the kernel's clusters along the axes.
MulticastGroups multicast_groups(ClusterAxes axes);

// What this CTA is to its group.
struct GroupMember {
  Index place;  // the first of the axes innermost
  u16 mask;     // bit `rank` of each CTA
};
GroupMember group_member(const MulticastGroups& groups);

// The CTAs in line with this one along the axes, itself included: those that differ from it along one of them
// alone. How many there are, and the rank of the i-th, those along the first of the axes first.
int ctas_in_line(ClusterAxes axes);
u32 rank_in_line(ClusterAxes axes, u32 i);

}  // namespace ptxbuilder::detail
