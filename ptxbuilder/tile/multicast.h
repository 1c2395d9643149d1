// CTAs of a cluster that share a load or meet at a barrier: those along some axes, and what names them.
#pragma once

#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder::detail {

// How many CTAs are in a group along the axes; 1 along none. CTA (i, j, l) has rank i + x (j + y l).
int ctas_along(ClusterAxes axes);

// The group that this CTA is in.
struct ClusterGroup {
  int count;
  u32 index;  // of this CTA, the first of the axes innermost
  u16 mask;   // bit `rank` of each
};
ClusterGroup cluster_group(ClusterAxes axes);

// The CTAs in line with this one along the axes, itself included: those that differ from it along one of them
// alone. How many there are, and the rank of the i-th, those along the first of the axes first.
int ctas_in_line(ClusterAxes axes);
u32 rank_in_line(ClusterAxes axes, u32 i);

// The same masks as numbers, by the rank of the CTA that sends.
void record_group(CopyRecord& record, ClusterAxes axes);

}  // namespace ptxbuilder::detail
