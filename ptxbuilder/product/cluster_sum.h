// Sums of accumulators over the CTAs of a cluster, through distributed shared memory. They are for one
// product, in one launch, whose k is divided among the CTAs.
#pragma once

#include "ptxbuilder/product/accumulator.h"
#include "ptxbuilder/tile/barrier.h"

namespace ptxbuilder {

// It is for one sum in a kernel whose cluster has at least two CTAs along an axis. Those in line along it add
// up, and each gets the whole sum of some columns. The order of additions is that of their places, so results
// repeat bit for bit.
class ClusterSum {
 public:
  // `consumers` warpgroups take part, in a role of their own, each with an accumulator of m x n. Throws Error
  // when n is no multiple of 8.
  ClusterSum(Kernel& kernel, int m, int n, int consumers, ClusterAxis axis = ClusterAxis::x,
             Where where = Where::here());

  // Bytes of shared memory that hold the partial sums of a CTA.
  uint32_t scratch_bytes() const;

  // Adds up, and returns columns() columns of the sum, starting at first_column(). `scratch` is a multiple
  // of 16. All earlier use of it must be complete when the warpgroups of the role come here: TMA copies
  // must have ended, and wgmma_wait(0) must have been called. All threads of the role call this, once. The
  // CTAs meet before they end, since others read their memory.
  RegisterTile<f32> add(const Accumulator& acc, smem scratch, Where where = Where::here()) const;

  // The columns of each CTA, a multiple of 8. Where these are more than n, some belong to two CTAs, which get
  // the same sums.
  int columns() const;
  u32 first_column(Where where = Where::here()) const;

 private:
  u32 rank_of(u32 place) const;

  int m_, n_, consumers_;
  ClusterAxis axis_;
  int ctas_;
  NamedBarrier role_;
  Barriers written_;
};

}  // namespace ptxbuilder
