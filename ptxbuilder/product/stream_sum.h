// The sums of a tile whose k several CTAs of the grid divide among them, through global memory, in one
// launch.
#pragma once

#include "ptxbuilder/product/accumulator.h"
#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder {

// A place in global memory for each CTA of the grid: a CTA that has computed a part of a tile gives its sums,
// and the one that completes the tile takes them. Each CTA gives once at most in a launch, and what it gives
// is taken. Whoever takes from another CTA waits for it, so all CTAs have to run at once: a grid of no more
// than fit.
//
// The memory is the launch's: two launches that overlap need two. It may hold anything before; behind the
// sums of each warpgroup stands a mark of 64 bits, which memory does not hold by chance, and which is gone
// when the sums are taken.
class StreamSum {
 public:
  // Of a role of `consumers` warpgroups with an f32 accumulator of m x n each, and a grid of CTAs along x.
  // `memory` has bytes() bytes for as many CTAs. Throws Error when a number is below one.
  StreamSum(int m, int n, int consumers, gptr<f32> memory, Where where = Where::here());
  static size_t bytes(int m, int n, int consumers, int ctas);

  // Leaves the accumulators at this CTA's place. All threads of a warpgroup call it, after wgmma_wait(0).
  void give(const Accumulator& acc, Where where = Where::here()) const;

  // Waits for what the same warpgroup of CTA `from` gives, adds it, and leaves its place as it was. All
  // threads of a warpgroup call it. The order of the calls is that of the additions.
  void take(Accumulator& acc, u32 from, Where where = Where::here()) const;

 private:
  void check(const Accumulator& acc) const;
  gmem place(u32 cta) const;  // of the calling warpgroup's fellow in that CTA
  gmem mark(gmem place) const;

  int m_, n_, consumers_;
  gmem memory_;
};

}  // namespace ptxbuilder
