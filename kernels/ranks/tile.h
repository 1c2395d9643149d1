// A product of several ranks is divided into tiles, which come in an order of their own.
#pragma once

#include <functional>

#include "ptxbuilder/dtype.h"
#include "ptxbuilder/tile/raster.h"

namespace ptxbuilder::kernels {

// The ranks' rows of a product, which are computed one after the other in a ring.
struct RankedTile {
  DType type = DType::bf16;    // The operands are of bf16, f16 or e4m3.
  DType d_type = DType::bf16;  // The result is of the operands' type, of e4m3 bf16 or f16.
  bool b_along_n = false;      // B is K rows of N, which 16-bit types may be.
  bool is_scaled = false;      // Products are multiplied by a number in memory.
  bool keeps = false;          // All ranks' rows of A stay in a tensor of the caller's.
  int ranks = 2;
  int bm = 128, bn = 256, stages = 4;
  int cluster = 2;  // CTAs side by side along the rows, which share B
  int group = 8;    // blocks of a cluster's tiles, along the rows, that are computed together

  bool operator==(const RankedTile&) const = default;
  int consumers() const { return bm / 64; }
  int bk() const { return 128 / size_of(type); }  // Rows of a stage have 128 bytes.
};
// Throws Error that names what does not suit.
void check(const RankedTile& tile);

// A CTA's tile of the rows of one rank.
struct RankedPlace {
  u32 phase;      // how many ranks' rows came before
  u32 owner;      // the rank whose rows these are
  u32 row, col;   // where the tile begins in the rows of that rank
  u32 block;      // the number of its rows among those of all ranks, in tiles
  u32 block_row;  // and among those of its rank
  pred is_inside;
};

// The tiles of a launch. Rank r begins with the rows of rank r + `first`, and goes down from there.
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

// The CTAs of a launch on a device of so many multiprocessors.
uint32_t ranked_grid(const RankedTile& tile, int64_t rows, int64_t n, int multiprocessors);

}  // namespace ptxbuilder::kernels
