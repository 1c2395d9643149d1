// Sums of accumulators over the CTAs of a cluster, through distributed shared memory. They are for one
// product, in one launch, whose k is divided among the CTAs.
#pragma once

#include "ptxbuilder/product/accumulator.h"
#include "ptxbuilder/tile/barrier.h"

namespace ptxbuilder {

// For one sum in a kernel whose cluster has at least two CTAs along x. Each CTA gets the whole sum of some
// columns. The order of additions is that of the ranks, so results repeat bit for bit.
class ClusterSum {
 public:
  // `consumers` warpgroups take part, in a role of their own, each with an accumulator of m x n. Throws Error
  // when n is no multiple of 8 for each CTA.
  ClusterSum(Kernel& kernel, int m, int n, int consumers, Where where = Where::here());

  // Bytes of shared memory that hold the partial sums of a CTA.
  uint32_t scratch_bytes() const;

  // Adds up, and returns columns() columns of the sum, starting at first_column(). `scratch` is a multiple
  // of 16. All earlier use of it must be complete when the warpgroups of the role come here: TMA copies
  // must have ended, and wgmma_wait(0) must have been called. All threads of the role call this, once. The
  // CTAs meet before they end, since others read their memory.
  RegisterTile<f32> add(const Accumulator& acc, smem scratch, Where where = Where::here()) const;

  int columns() const { return n_ / ctas_; }
  u32 first_column(Where where = Where::here()) const;

 private:
  int m_, n_, consumers_, ctas_;
  NamedBarrier role_;
  Barriers written_;
};

}  // namespace ptxbuilder
