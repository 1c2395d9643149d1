// The sums of a tile whose k several CTAs of the grid divide among them, through global memory, in one
// launch.
#pragma once

#include <functional>
#include <vector>

#include "ptxbuilder/product/accumulator.h"
#include "ptxbuilder/tile/barrier.h"

namespace ptxbuilder {

// What a CTA has of a tile. All CTAs that have a part of it say the same but for `rank`.
struct TileParts {
  u32 count;   // CTAs that each have a part of it, one or more
  u32 rank;    // which of them this one is, in an order of them that is the same in every launch
  u32 owners;  // the CTAs of ranks below this complete pieces of it: all, or one
  u32 place;   // of the CTA of rank 0 in memory; those of the others follow. Below the number of CTAs.
};

// Each CTA gives the pieces of its sums that others complete, and completes its own: to its sums it adds what
// the others have given, in the order of their ranks, so that results repeat bit for bit. A piece is some
// columns of some rows of each warpgroup's accumulator; the pieces make it up, are of one size, and go round
// among the owners.
//
// A CTA gives once and completes once at most in a launch. Whoever completes a piece waits for all others, so
// all CTAs have to run at once: a grid of no more than fit.
//
// The memory is the launch's: two launches that overlap need two. It may hold anything before. That sums are
// given is said by a mark of 64 bits, which memory does not hold by chance, and which is gone when they are
// taken.
class GlobalSum {
 public:
  // For a role of `consumers` warpgroups with an f32 accumulator of m x n each, and a grid of CTAs along x;
  // made before the role. Throws Error when a number is below one.
  GlobalSum(Kernel& kernel, int m, int n, int consumers, gptr<f32> memory, Where where = Where::here());
  // What `memory` has for a grid of `ctas`, in whatever pieces.
  static size_t bytes(int m, int n, int consumers, int ctas);

  // Leaves the pieces that others complete. All threads of a warpgroup call it, after wgmma_wait(0).
  void give(const Accumulator& acc, const std::vector<TilePart>& pieces, const TileParts& parts,
            Where where = Where::here()) const;

  // Waits until all others have given, completes this CTA's pieces, and runs `completed` behind each. All
  // threads of the role call it, after give(). What the others have given passes through `scratch_bytes` of
  // shared memory from `scratch` on, a multiple of 128, which nobody uses any more when all have come.
  // Throws Error when that does not hold two pieces for each warpgroup.
  void complete(Accumulator& acc, const std::vector<TilePart>& pieces, const TileParts& parts, smem scratch,
                int scratch_bytes, const std::function<void(int piece)>& completed,
                Where where = Where::here()) const;

 private:
  class Arrivals;

  void check(const Accumulator& acc, const std::vector<TilePart>& pieces) const;
  u32 warpgroup() const;
  gmem sums(u32 place) const;
  gmem mark(u32 owner, u32 place) const;
  void wait(const TileParts& parts) const;

  int m_, n_, consumers_;
  gmem memory_;
  NamedBarrier role_;
  Barriers arrived_;  // two for each warpgroup
};

}  // namespace ptxbuilder
