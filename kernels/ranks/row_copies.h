// Copies the rows of each rank to the other ranks.
#pragma once

#include "kernels/ranks/operands.h"
#include "ptxbuilder/tile/barrier.h"

namespace ptxbuilder::kernels {

// The rows that are copied: a matrix without gaps that has some rows of each rank, one rank's after the
// other's, as RankedOrder describes.
struct CopiedRows {
  gmem own;  // the first of this rank's rows
  u32 row_elements;
  DType type;
  std::optional<gmem> kept = {};     // where all ranks' rows are copied to
  std::optional<u32> all_rows = {};  // the number of rows of all ranks
  // If this rank's rows are computed during the copies, at the address where they are kept: the number of
  // signals of each block of these rows, and the first block whose signals are those of copied rows.
  struct Computed {
    u32 signals, first_block;
  };
  std::optional<Computed> computed = {};
};

// Copies rows in pieces of up to `RankedTile::piece_bytes` bytes, each in one block of `RankedTile::bm` rows.
// The CTAs of a rank process its pieces in turn, whichever tiles they multiply. One thread of each CTA copies
// them through shared memory, first to the next rank, then to the one after that, and so on, since each rank
// multiplies the rows in the order in which they arrive. They arrive in the exchange memory, at the positions
// that they have in the entire matrix. If they are kept, two other warps copy them on from there, through
// registers.
class RowCopies {
 public:
  // Construct this outside roles.
  RowCopies(Kernel& k, const RankedTile& t, const RankedParameters& parameters, const Exchange& exchange,
            const RankedOrder& order, const CopiedRows& rows);

  // Runs the copies, in the producer's warpgroup: its second warp sends this rank's rows, and its last two
  // warps copy all ranks' rows to where they are kept, if they are kept.
  void run() const;
  // Waits until TMA can load the block of another rank that begins at a row of that rank.
  void wait(u32 block, u32 row) const;
  // Returns the number of the signals of a block of this rank that is computed during the copies.
  u32 signal_of_computed(u32 block) const { return Exchange::signal_of(rank_, first_block_ + block); }
  // Signals that the thread that loads the rows waits for nothing more.
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
