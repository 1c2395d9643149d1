// A product of several ranks is divided into tiles, which are processed in a special order.
#pragma once

#include <functional>
#include <optional>

#include "ptxbuilder/dtype.h"
#include "ptxbuilder/tile/raster.h"

namespace ptxbuilder::kernels {

// Either D = gathered A times B^T, or D = some of the rows of the sum over ranks of A B^T, or all of them.
enum class RankedForm : uint8_t { all_gather, reduce_scatter, all_reduce };

// The tile of a product of ranks, which computes the ranks' rows one after the other in a ring.
struct RankedTile {
  DType type = DType::bf16;    // The operands may be bf16, f16 or e4m3.
  DType d_type = DType::bf16;  // The result has the operands' type, or for e4m3, bf16 or f16.
  bool b_along_n = false;      // B is K rows of N, which 16-bit types allow.
  bool is_scaled = false;      // Products are multiplied by a number in memory.
  bool keeps = false;          // All ranks' rows of A stay in a tensor of the caller's.
  bool to_all = false;         // Sums come to all ranks, in an all-reduce.
  int ranks = 2;
  int bm = 128, bn = 256, stages = 4;
  int cluster = 2;  // adjacent CTAs along the rows, which share B
  int group = 8;    // blocks of a cluster's tiles, along the rows, that are computed together
  int rounds = 1;   // Each computes a part of the rows of all ranks, whose sums an all-reduce then sends.
  int piece_bytes = 8192;  // of the rows that are copied at a time

  bool operator==(const RankedTile&) const = default;
  int consumers() const { return bm / 64; }
  // A thread of a role has so many registers.
  int producer_registers() const { return consumers() == 1 ? 120 : 40; }
  int consumer_registers() const { return consumers() == 1 ? 240 : 232; }
  int bk() const { return 128 / size_of(type); }  // A row of a stage has 128 bytes.
};
// Throws Error that names what is not supported.
void check(const RankedTile& tile);

// A CTA's tile of the rows of one rank.
struct RankedPlace {
  u32 phase;       // how many ranks' rows were processed before
  u32 owner;       // the rank that owns these rows
  u32 row, col;    // the tile's beginning in the rows of that rank
  u32 block;       // the number of its rows among those of all ranks, in tiles
  pred is_inside;  // in the product
};

// The order of a launch's tiles. Rank r begins with the rows of rank r + `first`, and goes down from there,
// in each round. Each rank has `rows` rows; if all of them together have `all_rows`, that is a multiple of
// the tile's rows, and the last ranks have fewer.
class RankedOrder {
 public:
  RankedOrder(const RankedTile& tile, u32 rank, u32 rows, u32 n, int first,
              const std::optional<u32>& all_rows = {});
  void each(const std::function<void(const RankedPlace&)>& body) const;
  u32 columns() const { return cols_; }
  // Returns how many blocks of a rank's rows are in a round, or fewer in the last, and how many it has.
  u32 blocks_of_round() const;
  u32 blocks_of_rank() const { return rows_; }

 private:
  RankedTile tile_;
  int first_;
  u32 rank_, rows_, cols_;  // of tiles
  std::optional<u32> all_;  // of tiles
};

// Returns the rows of a rank: of an all-reduce's, which are given all together, a multiple of the tile's.
int64_t rows_of_rank(RankedForm form, const RankedTile& tile, int64_t rows);

// Returns how many blocks of rows, or of tiles' sums, ranks signal to each other. Each has a word in the
// exchange memory. `rows` is as in RankedArguments.
int64_t ranked_blocks(RankedForm form, const RankedTile& tile, int64_t rows, int64_t n);

// Returns how many clusters run at once on a device with that many multiprocessors.
int64_t clusters_at_once(const RankedTile& tile, int multiprocessors);

// Returns the number of CTAs of a launch, which is as many as run at once where all of them send rows.
uint32_t ranked_grid(RankedForm form, const RankedTile& tile, int64_t rows, int64_t n, int multiprocessors);

}  // namespace ptxbuilder::kernels
