// Adds up the sums of a tile whose k is divided among several CTAs of the grid, through global memory, in one
// launch.
#pragma once

#include <functional>

#include "ptxbuilder/product/accumulator.h"
#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder {

// A CTA's share of a tile. All CTAs that share the tile pass the same values, except for `rank`.
struct TileParts {
  u32 count;   // the CTAs that share the tile, one or more
  u32 rank;    // this CTA's number among them, in an order that is the same in every launch
  u32 owners;  // the CTAs with ranks below this number complete pieces of the tile: all CTAs, or one
  u32 place;   // of the sums of rank 0 in memory; the places of the other ranks follow, `apart` from each
               // other. Nobody else has these places.
};

// Each CTA stores its sums, and completes some pieces: it adds the sums of all CTAs for a piece in the order
// of ranks, so that results repeat bit for bit. A piece is some columns of 64 rows of a warpgroup's
// accumulator. Pieces are numbered along each 64 rows in turn, and are assigned to owners in turn.
//
// This code runs once in a launch, when its instructions are not yet cached, so it is kept short: pieces are
// processed in a loop.
//
// A CTA that completes a piece waits for all others, so all CTAs must run at once: the grid must not have
// more CTAs than fit. Each place is used at most once in a launch, so that there are no more places than
// stores of sums, which are at most twice the number of CTAs.
//
// The memory belongs to the launch: launches that overlap need separate memory. It may hold anything before.
// A 64-bit mark shows that sums have been stored: memory does not hold the mark by chance, and the mark is
// removed when the sums are read.
class GlobalSum {
 public:
  // For a role of `consumers` warpgroups with an f32 accumulator of m x n each, in pieces of `piece_cols`
  // columns. No tile has more than `most_parts` parts, whose places are `apart` (a cluster whose CTAs divide
  // k computes one tile per CTA at the same time). Throws Error if a number is below one, and for pieces that
  // do not divide the columns.
  GlobalSum(int m, int n, int piece_cols, int consumers, int most_parts, int apart, gptr<f32> memory,
            Where where = Where::here());
  // Returns the bytes that `memory` needs for a grid of `ctas` and the same number of places, for any pieces.
  static size_t bytes(int m, int n, int consumers, int ctas, int places);

  // Writes the sums to memory. All threads of a warpgroup call this, after wgmma_wait(0).
  void give(const Accumulator& acc, const TileParts& parts, Where where = Where::here()) const;

  // Waits until all other CTAs have stored their sums, and runs `body` for each of this CTA's pieces. All
  // threads of a warpgroup call it, after give().
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
