// The tiles of a multi-GPU product, and the order in which they are processed.
#pragma once

#include <functional>
#include <optional>

#include "ptxbuilder/dtype.h"
#include "ptxbuilder/tile/raster.h"

namespace ptxbuilder::kernels {

// The form of a product: D = gathered A times B^T, or D = some rows or all rows of the sum of A B^T over the
// ranks.
enum class RankedForm : uint8_t { all_gather, reduce_scatter, all_reduce };

// The tile of a multi-GPU product, which processes the ranks' rows one after the other in a ring.
struct RankedTile {
  DType type = DType::bf16;    // type of the operands: bf16, f16 or e4m3
  DType d_type = DType::bf16;  // type of the result: the operands' type or, if that is e4m3, bf16 or f16
  bool b_along_n = false;      // B is K rows of N, which requires 16-bit types
  bool is_scaled = false;      // products are multiplied by a number in memory
  bool keeps = false;          // a tensor of the caller's receives all ranks' rows of A
  bool to_all = false;         // all ranks receive the sums, as in an all-reduce
  int ranks = 2;
  int bm = 128, bn = 256, stages = 4;
  int cluster = 2;  // adjacent CTAs along the rows, which share B
  int group = 8;    // number of blocks of a cluster's tiles, along the rows, that are computed together
  int rounds = 1;   // each computes a part of all ranks' rows, and an all-reduce then sends the sums
  int piece_bytes = 8192;  // bytes of rows that are copied at a time

  bool operator==(const RankedTile&) const = default;
  int consumers() const { return bm / 64; }
  // These functions return the number of registers per thread of each role.
  int producer_registers() const { return consumers() == 1 ? 120 : 40; }
  int consumer_registers() const { return consumers() == 1 ? 240 : 232; }
  int bk() const { return 128 / size_of(type); }  // a row of a stage has 128 bytes
};
// Throws Error that names what is not supported.
void check(const RankedTile& tile);

// A tile of a CTA, within the rows of one rank.
struct RankedPlace {
  u32 phase;       // number of ranks whose rows were processed before
  u32 owner;       // the rank that owns these rows
  u32 row, col;    // where the tile begins within the rows of that rank
  u32 block;       // index of the tile's rows among those of all ranks, in tiles
  pred is_inside;  // whether the tile is inside the product
};

// The order of a launch's tiles. In each round, rank r begins with the rows of rank r + `first`, and goes
// down from there. Each rank has `rows` rows. If `all_rows`, the number of rows of all ranks together, is
// given, `rows` is a multiple of the tile's rows, and the last ranks have fewer rows.
class RankedOrder {
 public:
  RankedOrder(const RankedTile& tile, u32 rank, u32 rows, u32 n, int first,
              const std::optional<u32>& all_rows = {});
  void each(const std::function<void(const RankedPlace&)>& body) const;
  u32 columns() const { return cols_; }
  // Returns how many blocks of a rank's rows are in a round (the last round may have fewer), and how many a
  // rank has.
  u32 blocks_of_round() const;
  u32 blocks_of_rank() const { return rows_; }

 private:
  RankedTile tile_;
  int first_;
  u32 rank_, rows_, cols_;  // in tiles
  std::optional<u32> all_;  // in tiles
};

// Returns the rows of a rank. In an all-reduce, `rows` is the total, and the result is a multiple of the
// tile's rows.
int64_t rows_of_rank(RankedForm form, const RankedTile& tile, int64_t rows);

// Returns how many blocks of rows, or of tiles' sums, ranks signal to each other. Each block has a word in
// the exchange memory. `rows` has the same meaning as in RankedArguments.
int64_t ranked_blocks(RankedForm form, const RankedTile& tile, int64_t rows, int64_t n);

// Returns how many clusters run at once on a device with `multiprocessors` SMs.
int64_t clusters_at_once(const RankedTile& tile, int multiprocessors);

// Returns the number of CTAs of a launch. If all CTAs send rows, it is the number that runs at once.
uint32_t ranked_grid(RankedForm form, const RankedTile& tile, int64_t rows, int64_t n, int multiprocessors);

}  // namespace ptxbuilder::kernels
