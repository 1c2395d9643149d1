// Sums accumulators across the CTAs of a cluster through distributed shared memory, for a product whose k is
// divided among the CTAs.
#pragma once

#include "ptxbuilder/product/accumulator.h"
#include "ptxbuilder/tile/barrier.h"

namespace ptxbuilder {

// Computes a sum once, in a kernel whose cluster has at least two CTAs along an axis. The CTAs in line along
// the axis add their accumulators, and each CTA gets some columns of the total. Additions follow the order of
// the CTAs' positions, so results are bit-for-bit reproducible.
class ClusterSum {
 public:
  // The role of the sum has `consumers` warpgroups, each with an accumulator of m x n. Throws Error if n is
  // not a multiple of 8.
  ClusterSum(Kernel& kernel, int m, int n, int consumers, ClusterAxis axis = ClusterAxis::x,
             Where where = Where::here());

  // Returns the number of bytes of shared memory for the partial sums of a CTA.
  uint32_t scratch_bytes() const;

  // Adds the accumulators, and returns columns() columns of the total, beginning at first_column(). `scratch`
  // must be a multiple of 16. All earlier use of this memory must be complete when the warpgroups of the role
  // call this: TMA copies must have ended, and wgmma_wait(0) must have been called. All threads of the role
  // call this, once. The CTAs synchronize before they exit, since other CTAs read their shared memory.
  RegisterTile<f32> add(const Accumulator& acc, smem scratch, Where where = Where::here()) const;

  // Returns the number of columns of each CTA, a multiple of 8. If the CTAs' columns add up to more than n,
  // some columns belong to two CTAs, which get the same sums.
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
