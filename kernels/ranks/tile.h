// Describes the tiles of a multi-GPU product, and the order in which they are processed.
#pragma once

#include <functional>
#include <optional>

#include "ptxbuilder/dtype.h"
#include "ptxbuilder/tile/raster.h"

namespace ptxbuilder::kernels {

// The form of a product. all_gather: D is the gathered A times B^T. reduce_scatter and all_reduce: D holds
// this rank's rows, or all rows, of the sum of A B^T over the ranks.
enum class RankedForm : uint8_t { all_gather, reduce_scatter, all_reduce };

// The tile and the settings of a multi-GPU product, which processes the rows of one rank after the other,
// around a ring.
struct RankedTile {
  DType type = DType::bf16;    // type of the operands: bf16, f16 or e4m3
  DType d_type = DType::bf16;  // type of the result: `type` or, if that is e4m3, bf16 or f16
  bool b_along_n = false;      // true: B is K rows of N, which requires 16-bit types
  bool is_scaled = false;      // true: products are multiplied by a number in memory
  bool keeps = false;          // true: a tensor of the caller receives the rows of A of all ranks
  bool to_all = false;         // true: all ranks receive all sums, as in an all-reduce
  int ranks = 2;
  int bm = 128, bn = 256, stages = 4;
  int cluster = 2;  // CTAs in a cluster; they are adjacent along the rows and share B
  int group = 8;  // number of clusters' blocks along the rows that are computed together, for locality in L2
  int rounds =
      1;  // each round computes a part of the rows of every rank; an all-reduce then sends their sums
  int piece_bytes = 8192;  // maximum number of bytes copied at a time

  bool operator==(const RankedTile&) const = default;
  int consumers() const { return bm / 64; }
  // These functions return the number of registers per thread in each role.
  int producer_registers() const { return consumers() == 1 ? 120 : 40; }
  int consumer_registers() const { return consumers() == 1 ? 240 : 232; }
  int bk() const { return 128 / size_of(type); }  // a row of a stage has 128 bytes
};
// Throws an Error that names what is not supported.
void check(const RankedTile& tile);

// A tile of a CTA, within the rows of one rank.
struct RankedPlace {
  u32 phase;       // number of ranks whose rows have been processed before, in this round
  u32 owner;       // rank that owns the rows
  u32 row, col;    // origin of the tile within the rows of the owner
  u32 block;       // number of the block of rows, counted over all ranks
  pred is_inside;  // false if the tile is outside the product
};

// The order in which a launch processes tiles. In each round, rank r begins with the rows of rank r +
// `first`, and continues with those of the ranks before it, around the ring. Each rank has `rows` rows. If
// `all_rows`, the number of rows of all ranks together, is given, `rows` must be a multiple of the tile's
// rows, and the last ranks may have fewer rows.
class RankedOrder {
 public:
  RankedOrder(const RankedTile& tile, u32 rank, u32 rows, u32 n, int first,
              const std::optional<u32>& all_rows = {});
  void each(const std::function<void(const RankedPlace&)>& body) const;
  u32 columns() const { return cols_; }
  // These functions return the number of blocks of a rank's rows that a round processes (the last round may
  // process fewer), and the number of blocks that a rank has.
  u32 blocks_of_round() const;
  u32 blocks_of_rank() const { return rows_; }

 private:
  RankedTile tile_;
  int first_;
  u32 rank_, rows_, cols_;  // in tiles
  std::optional<u32> all_;  // in tiles
};

// Returns the number of rows of a rank. In an all-reduce, `rows` is the total over all ranks, and the result
// is rounded up to a multiple of the tile's rows.
int64_t rows_of_rank(RankedForm form, const RankedTile& tile, int64_t rows);

// Returns the number of blocks, of rows or of sums of tiles, for which ranks signal to each other. Each block
// needs a word in the exchange memory. `rows` is RankedArguments::rows.
int64_t ranked_blocks(RankedForm form, const RankedTile& tile, int64_t rows, int64_t n);

// Returns how many clusters of CTAs run at once on a device with `multiprocessors` SMs.
int64_t clusters_at_once(const RankedTile& tile, int multiprocessors);

// Returns the number of CTAs in a launch. If CTAs send rows, it is the number of CTAs that run at once, even
// if there are fewer tiles.
uint32_t ranked_grid(RankedForm form, const RankedTile& tile, int64_t rows, int64_t n, int multiprocessors);

}  // namespace ptxbuilder::kernels
