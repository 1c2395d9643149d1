// Sums accumulators across the CTAs of a cluster through distributed shared memory, for products whose k is
// divided among the CTAs.
#pragma once

#include "ptxbuilder/product/accumulator.h"
#include "ptxbuilder/tile/barrier.h"

namespace ptxbuilder {

// Computes one sum, in a kernel whose cluster has at least two CTAs along an axis. The CTAs in line along
// this axis add their accumulators, and each CTA gets some columns of the total. Accumulators are added in
// the order of the CTAs' positions, so results are bit-for-bit reproducible.
class ClusterSum {
 public:
  // Prepares a sum in a role of `consumers` warpgroups, each of which has an accumulator of m x n. Throws
  // Error if n is not a multiple of 8.
  ClusterSum(Kernel& kernel, int m, int n, int consumers, ClusterAxis axis = ClusterAxis::x,
             Where where = Where::here());

  // Returns the number of bytes of shared memory that the partial sums of a CTA need.
  uint32_t scratch_bytes() const;

  // Adds the accumulators, and returns columns() columns of the total, beginning at first_column(). The
  // address `scratch` must be a multiple of 16. All earlier use of this memory must be complete when the
  // role's warpgroups make this call: TMA copies must have ended, and wgmma_wait(0) must have been called.
  // All threads of the role must make the call, and only once. The CTAs synchronize before they exit, because
  // each CTA reads the shared memory of other CTAs.
  RegisterTile<f32> add(const Accumulator& acc, smem scratch, Where where = Where::here()) const;

  // Returns the number of columns that each CTA gets, a multiple of 8. If the CTAs' columns add up to more
  // than n, some columns belong to two CTAs, and both get the same sums.
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
