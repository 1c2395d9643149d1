// CTAs of a cluster that share a load: those along some axes, and the masks that name them.
#pragma once

#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder::detail {

// How many CTAs are in a group along the axes; 1 along none. CTA (i, j, l) has rank i + x (j + y l).
int ctas_along(ClusterAxes axes, Where where);

// The group that this CTA is in.
struct ClusterGroup {
  int count;
  u32 index;  // of this CTA, the first of the axes innermost
  u16 mask;   // bit `rank` of each
};
ClusterGroup cluster_group(ClusterAxes axes, Where where);

// The same masks as numbers, by the rank of the CTA that sends.
void record_group(CopyRecord& record, ClusterAxes axes, Where where);

}  // namespace ptxbuilder::detail
