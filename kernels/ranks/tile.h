// A product of several ranks is divided into tiles, which are processed in a special order.
#pragma once

#include <functional>

#include "ptxbuilder/dtype.h"
#include "ptxbuilder/tile/raster.h"

namespace ptxbuilder::kernels {

// The tile of a product of ranks, which computes the ranks' rows one after the other in a ring.
struct RankedTile {
  DType type = DType::bf16;    // The operands may be bf16, f16 or e4m3.
  DType d_type = DType::bf16;  // The result has the operands' type, or for e4m3, bf16 or f16.
  bool b_along_n = false;      // B is K rows of N, which 16-bit types allow.
  bool is_scaled = false;      // Products are multiplied by a number in memory.
  bool keeps = false;          // All ranks' rows of A stay in a tensor of the caller's.
  int ranks = 2;
  int bm = 128, bn = 256, stages = 4;
  int cluster = 2;  // adjacent CTAs along the rows, which share B
  int group = 8;    // blocks of a cluster's tiles, along the rows, that are computed together

  bool operator==(const RankedTile&) const = default;
  int consumers() const { return bm / 64; }
  int bk() const { return 128 / size_of(type); }  // A row of a stage has 128 bytes.
};
// Throws Error that names what is not supported.
void check(const RankedTile& tile);

// A CTA's tile of the rows of one rank.
struct RankedPlace {
  u32 phase;      // how many ranks' rows were processed before
  u32 owner;      // the rank that owns these rows
  u32 row, col;   // the tile's beginning in the rows of that rank
  u32 block;      // the number of its rows among those of all ranks, in tiles
  u32 block_row;  // the same number among those of its rank
  pred is_inside;
};

// The order of a launch's tiles. Rank r begins with the rows of rank r + `first`, and goes down from there.
class RankedOrder {
 public:
  RankedOrder(const RankedTile& tile, u32 rank, u32 rows, u32 n, int first);
  void each(const std::function<void(const RankedPlace&)>& body) const;
  u32 columns() const { return cols_; }

 private:
  RankedTile tile_;
  int first_;
  u32 rank_, rows_, cols_;  // of tiles
};

// Returns the number of CTAs of a launch on a device with that many multiprocessors.
uint32_t ranked_grid(const RankedTile& tile, int64_t rows, int64_t n, int multiprocessors);

}  // namespace ptxbuilder::kernels
