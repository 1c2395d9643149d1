// The sums of a tile whose k several CTAs of the grid divide among them, through global memory, in one
// launch.
#pragma once

#include <functional>

#include "ptxbuilder/product/accumulator.h"
#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder {

// The share that a CTA has of a tile. All CTAs that have a part of it say the same but for `rank`.
struct TileParts {
  u32 count;   // CTAs that each have a part of it, one or more
  u32 rank;    // which of them this one is, in an order of them that is the same in every launch
  u32 owners;  // the CTAs of ranks below this complete pieces of it: all, or one
  u32 place;   // of the sums of rank 0 in memory; those of the others follow it, `apart` from each other.
               // Nobody else has these places.
};

// Each CTA gives its sums, and completes some pieces: it adds what all have given of them, in the order of
// ranks, so that results repeat bit for bit. A piece is some columns of 64 rows of a warpgroup's accumulator;
// pieces are numbered one 64 rows after the other, and go round among the owners.
//
// This runs once in a launch, from instructions that no cache holds, so it has few of them: pieces are a
// loop.
//
// Whoever completes a piece waits for all others, so all CTAs have to run at once: a grid of no more than
// fit. Each place is given once at most in a launch, so that there are no more of them than CTAs give sums,
// twice as many as CTAs at most.
//
// The memory is the launch's: two launches that overlap need two. It may hold anything before. That sums are
// given is said by a mark of 64 bits, which memory does not hold by chance, and which is gone when they are
// taken.
class GlobalSum {
 public:
  // This is for a role of `consumers` warpgroups with an f32 accumulator of m x n each, in pieces of
  // `piece_cols` columns. No tile has more than `most_parts` parts, whose places are `apart` (clusters that
  // divide k have as many tiles side by side as CTAs). Throws Error when a number is below one, and for
  // pieces that do not divide the columns.
  GlobalSum(int m, int n, int piece_cols, int consumers, int most_parts, int apart, gptr<f32> memory,
            Where where = Where::here());
  // The bytes that `memory` has for a grid of `ctas` and as many places, in whatever pieces.
  static size_t bytes(int m, int n, int consumers, int ctas, int places);

  // Leaves the sums in memory. All threads of a warpgroup call it, after wgmma_wait(0).
  void give(const Accumulator& acc, const TileParts& parts, Where where = Where::here()) const;

  // Waits until all others have given, and runs `body` for each of this CTA's pieces. All threads of a
  // warpgroup call it, after give().
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
