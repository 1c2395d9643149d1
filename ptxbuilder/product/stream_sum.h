// The sums of a tile whose k several CTAs of the grid divide among them, through global memory, in one
// launch.
#pragma once

#include "ptxbuilder/product/accumulator.h"
#include "ptxbuilder/tile/kernel.h"
#include "ptxbuilder/tile/semaphore.h"

namespace ptxbuilder {

// A place in global memory for each CTA of the grid: a CTA that has computed a part of a tile gives its sums,
// and the one that completes the tile takes them. Each CTA gives once at most in a launch. Whoever takes from
// another CTA waits for it, so all CTAs have to run at once: a grid of no more than fit. The memory is the
// module's, so that two launches of one loaded kernel may not overlap.
class StreamSum {
 public:
  // Of a role of `consumers` warpgroups with an f32 accumulator of m x n each, and at most `ctas` CTAs along
  // x: 4 m n consumers ctas bytes. Throws Error when a number is below one.
  StreamSum(Kernel& kernel, int m, int n, int consumers, int ctas, Where where = Where::here());

  // Leaves the accumulators at this CTA's place. All threads of a warpgroup call it, after wgmma_wait(0).
  void give(const Accumulator& acc, Where where = Where::here()) const;

  // Waits for what the same warpgroup of CTA `from` gives, adds it, and leaves its place as it was. All
  // threads of a warpgroup call it. The order of the calls is that of the additions.
  void take(Accumulator& acc, u32 from, Where where = Where::here()) const;

 private:
  void check(const Accumulator& acc) const;
  u64 slot(u32 cta) const;  // which warpgroup of the grid
  Semaphore given(u64 slot) const;

  int m_, n_, consumers_;
  gmem sums_, given_;  // a semaphore for each warpgroup of the grid
};

}  // namespace ptxbuilder
