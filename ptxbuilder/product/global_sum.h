// Sums the accumulators of a tile whose k is divided among several CTAs of the grid. The sums pass through
// global memory, in a single launch.
#pragma once

#include <functional>

#include "ptxbuilder/product/accumulator.h"
#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder {

// A CTA's share of a tile. All CTAs that share the tile must pass the same values, except for `rank`.
struct TileParts {
  u32 count;   // number of CTAs that share the tile; at least one
  u32 rank;    // number of this CTA among the CTAs of the tile, in an order that is the same in every launch
  u32 owners;  // number of CTAs, counted from rank 0, that complete pieces of the tile; either `count` or 1
  u32 place;   // index of the place in memory for the sums of rank 0; the places of further ranks follow at
               // distances of `apart`, and no other tile uses them
};

// Adds the sums of several CTAs. Each CTA stores its own sums. A CTA that owns pieces also completes them: it
// adds the sums of all CTAs for a piece in the order of ranks, so that results are bit-for-bit reproducible.
// A piece consists of some columns of 64 rows of a warpgroup's accumulator. Pieces are numbered along each
// block of 64 rows, one block after the other, and are distributed round-robin among the owners.
//
// The code runs only once per launch, so its instructions are not in the cache. To keep the code short, a
// loop processes the pieces.
//
// A CTA that completes a piece waits for all other CTAs of the tile. All CTAs must therefore run at once, so
// the grid must not have more CTAs than fit on the GPU. Each place is used at most once in a launch. A launch
// stores sums at most twice for each CTA, so two places for each CTA are enough.
//
// Launches that overlap need separate memory. The memory need not be initialised. A 64-bit mark shows that
// sums have been stored; a number of this length does not occur in memory by chance. The mark is removed when
// the sums are read.
class GlobalSum {
 public:
  // Prepares sums in a role of `consumers` warpgroups, each of which has an f32 accumulator of m x n, divided
  // into pieces of `piece_cols` columns. No tile may have more than `most_parts` parts. The places of a
  // tile's parts are `apart` places from each other, because a cluster whose CTAs divide k computes one tile
  // per CTA at the same time. Throws Error if an argument is less than 1, or if `piece_cols` does not divide
  // n.
  GlobalSum(int m, int n, int piece_cols, int consumers, int most_parts, int apart, gptr<f32> memory,
            Where where = Where::here());
  // Returns the number of bytes that `memory` needs for a grid of `ctas` CTAs and `places` places, for pieces
  // of any size.
  static size_t bytes(int m, int n, int consumers, int ctas, int places);

  // Writes this CTA's sums to memory. All threads of a warpgroup must call this, after wgmma_wait(0).
  void give(const Accumulator& acc, const TileParts& parts, Where where = Where::here()) const;

  // Waits until all other CTAs of the tile have stored their sums, and runs `body` for each of this CTA's
  // pieces. All threads of a warpgroup must call this, after give().
  void complete(const TileParts& parts,
                const std::function<void(u32 piece, const RegisterTile<f32>& sum)>& body,
                Where where = Where::here()) const;

 private:
  int pieces() const { return m_ / 64 * (n_ / piece_cols_); }
  u32 owners_of(const TileParts& parts) const;
  u32 warpgroup() const;
  u32 place_of(const TileParts& parts, u32 rank) const;
  gmem sums(u32 place) const;
  gmem mark(u32 owner, u32 place) const;
  void wait(const TileParts& parts) const;
  void store_piece(const Accumulator& acc, gmem to, int row, int col) const;
  RegisterTile<f32> total(u32 piece, const TileParts& parts) const;

  int m_, n_, piece_cols_, consumers_, most_parts_, apart_;
  gmem memory_;
};

}  // namespace ptxbuilder
