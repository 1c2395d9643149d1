// The copies that bring the rows of each rank to the other ranks.
#pragma once

#include "kernels/ranks/operands.h"
#include "ptxbuilder/tile/barrier.h"

namespace ptxbuilder::kernels {

// The rows that are copied: a matrix without gaps, which has some rows of each rank, one rank's after the
// other's, as RankedOrder says.
struct CopiedRows {
  gmem own;  // this rank's rows, the first of all
  u32 row_elements;
  DType type;
  std::optional<gmem> kept = {};     // where all ranks' rows are copied to
  std::optional<u32> all_rows = {};  // of all ranks
  // If this rank's rows are computed meanwhile, where they are kept: the number of signals of each block of
  // them, and the first block whose signals are of copied rows.
  struct Computed {
    u32 signals, first_block;
  };
  std::optional<Computed> computed = {};
};

// A rank's rows are divided into pieces of up to `RankedTile::piece_bytes` bytes; a piece is in one block of
// `RankedTile::bm` rows. The CTAs of the rank take the pieces in turn, whichever tiles they multiply. One
// thread of each CTA copies them through shared memory, first those for the rank after this one, then those
// for the rank after that, and so on: each rank multiplies the rows in the order in which they arrive. They
// arrive in the exchange memory, at the places that they have in the whole matrix. If they are kept, two
// other warps copy them on from there, through registers.
class RowCopies {
 public:
  // This is called outside of roles.
  RowCopies(Kernel& k, const RankedTile& t, const RankedParameters& parameters, const Exchange& exchange,
            const RankedOrder& order, const CopiedRows& rows);

  // The producer's warpgroup calls this: its second warp sends this rank's rows, and the last two copy all
  // ranks' rows to where they are kept, if they are.
  void run() const;
  // Waits until the block of another rank that begins at a row of that rank has arrived, for TMA to load.
  void wait(u32 block, u32 row) const;
  // Returns the number of the signals of a block of this rank that is computed meanwhile.
  u32 signal_of_computed(u32 block) const { return Exchange::signal_of(rank_, first_block_ + block); }
  // The thread that loads what has come waits for nothing more.
  void left() const;

 private:
  struct Piece;
  class Copier;
  u32 rows_of(u32 owner) const;
  u32 pieces_of(u32 rows) const;
  Piece piece(u32 owner, u32 first_block, u32 number) const;
  gmem gathered(u32 of_rank, u32 owner) const;
  void each_round(const std::function<void(u32 first_block, u32 pieces)>& body) const;
  void send(Copier& copier, u32 first_block, u32 pieces) const;
  void keep(u32 first_block, u32 pieces) const;

  RankedTile tile_;
  const Exchange& exchange_;
  RankedOrder order_;
  CopiedRows of_;
  std::vector<gptr<u32>> memory_;
  u32 rank_, rows_, first_block_;
  u64 row_bytes_;
  u32 pieces_of_block_;
  SharedTile buffers_;
  Barriers loaded_;
};

}  // namespace ptxbuilder::kernels
