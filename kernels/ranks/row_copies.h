// Copies the rows of each rank to all other ranks.
#pragma once

#include "kernels/ranks/operands.h"
#include "ptxbuilder/tile/barrier.h"

namespace ptxbuilder::kernels {

// The rows to copy. They form a matrix without gaps in which the rows of each rank follow those of the
// previous rank (see RankedOrder).
struct CopiedRows {
  gmem own;  // first of this rank's rows
  u32 row_elements;
  DType type;
  std::optional<gmem> kept = {};     // if set, the rows of all ranks are copied to this memory
  std::optional<u32> all_rows = {};  // number of rows of all ranks together, if set
  // Set if this rank's rows are computed during the copies, at the place where they are kept. `signals` is
  // the number of signals that each block of computed rows receives, and `first_block` is the first block of
  // signals for copied rows.
  struct Computed {
    u32 signals, first_block;
  };
  std::optional<Computed> computed = {};
};

// Copies rows in pieces of up to RankedTile::piece_bytes bytes. A piece is within one block of RankedTile::bm
// rows. The pieces of a rank are distributed evenly over its CTAs. One thread of each CTA copies pieces
// through shared memory: first to the next rank, then to the rank after that, and so on, since each rank
// multiplies rows in the order in which they arrive. Rows arrive in the exchange memory, at the positions
// that they have in the entire matrix. If rows are kept, two other warps copy them from the exchange memory
// through registers.
class RowCopies {
 public:
  // Must be constructed outside roles.
  RowCopies(Kernel& k, const RankedTile& t, const RankedParameters& parameters, const Exchange& exchange,
            const RankedOrder& order, const CopiedRows& rows);

  // Runs the copies; the producer's warpgroup must call this function. Its second warp sends this rank's
  // rows. If rows are kept, its last two warps copy the rows of all ranks to the memory `kept`.
  void run() const;
  // Waits until TMA can load a block of another rank. `row` is the first row of the block among the rows of
  // that rank.
  void wait(u32 block, u32 row) const;
  // Returns the number of the signal for a block of this rank that is computed during the copies.
  u32 signal_of_computed(u32 block) const { return Exchange::signal_of(rank_, first_block_ + block); }
  // Reports that the calling thread, which loads rows, will not wait for signals any more.
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
