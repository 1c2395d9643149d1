// CTAs of a cluster that share a load: those in line along an axis, and the masks that name them.
#pragma once

#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder::detail {

// How many CTAs are in line along an axis. Their ranks are apart by as many CTAs as the axes before have: CTA
// (i, j, l) has rank i + x (j + y l).
int ctas_along(ClusterAxis axis, Where where);

// The line that this CTA is in.
struct ClusterLine {
  int count;
  u32 index;  // of this CTA
  u16 mask;   // bit `rank` of each
};
ClusterLine cluster_line(ClusterAxis axis, Where where);

// The same masks as numbers, by the rank of the CTA that sends.
void record_line(CopyRecord& record, ClusterAxis axis, Where where);

}  // namespace ptxbuilder::detail
