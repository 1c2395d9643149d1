// The sum of accumulators over the CTAs of a cluster, through distributed shared memory: one product whose k
// is divided among them, in one launch.
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

  // Adds up, and yields columns first_column() and on of the sum, columns() of them. `scratch` is a multiple
  // of 16; all that used it before is complete when every warpgroup of the role has come here:
  // TMA copies, and wgmma_wait(0). All threads of the role call it, once. Memory of a CTA is read by others,
  // so CTAs meet before they end.
  RegisterTile<f32> add(const Accumulator& acc, smem scratch, Where where = Where::here()) const;

  int columns() const { return n_ / ctas_; }
  u32 first_column(Where where = Where::here()) const;

 private:
  int m_, n_, consumers_, ctas_;
  NamedBarrier role_;
  Barriers written_;
};

}  // namespace ptxbuilder
