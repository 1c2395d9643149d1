#include "kernels/ranks/tile.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/ranks/exchange.h"
#include "ptxbuilder/isa/hopper.h"

namespace ptxbuilder::kernels {
namespace {

int64_t quotient(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

void check(const RankedTile& t) {
  if (t.ranks < 2 || t.ranks > kMostRanks)
    throw Error(fmt::format("a product of ranks has {} ranks, but must have 2 to {}", t.ranks, kMostRanks));
  if (!is_half(t.type) && t.type != DType::e4m3)
    throw Error(fmt::format("a product of ranks does not support {}; A and B must be bf16, f16 or e4m3",
                            name(t.type)));
  if (!is_half(t.d_type) || (is_half(t.type) && t.d_type != t.type))
    throw Error(fmt::format("a product of ranks of {} cannot have a result of {}; the result must be {}",
                            name(t.type), name(t.d_type),
                            is_half(t.type) ? "of the operands' type" : "bf16 or f16"));
  if (t.type == DType::e4m3 && t.b_along_n)
    throw Error("a product of ranks in e4m3 needs B contiguous along k, but it is contiguous along n");
  if (t.cluster < 1 || t.cluster > 2 || t.stages < 2 || t.group < 1 || (t.bm != 64 && t.bm != 128) ||
      t.rounds < 1 || t.piece_bytes < 16 || t.piece_bytes % 16 != 0)
    throw Error(fmt::format(
        "a product of ranks: bm {} (must be 64 or 128), {} stages (at least 2), clusters of {} (1 or 2), "
        "groups of {} (at least 1), {} rounds (at least 1), pieces of {} B (a multiple of 16)",
        t.bm, t.stages, t.cluster, t.group, t.rounds, t.piece_bytes));
}

RankedOrder::RankedOrder(const RankedTile& t, u32 rank, u32 rows, u32 n, int first,
                         const std::optional<u32>& all_rows)
    : tile_(t), first_(first), rank_(rank), rows_(ceil_div(rows, t.bm)), cols_(ceil_div(n, t.bn)) {
  if (all_rows) all_ = ceil_div(*all_rows, t.bm);
}

u32 RankedOrder::blocks_of_round() const {
  return ceil_div(rows_, tile_.rounds * tile_.cluster) * tile_.cluster;
}

void RankedOrder::each(const std::function<void(const RankedPlace&)>& body) const {
  const int c = tile_.cluster;
  const auto ranks = static_cast<uint32_t>(tile_.ranks);
  const u32 block_rows = c == 1 ? rows_ : ceil_div(rows_, c);
  const u32 id = c == 1 ? ctaid_x() : ctaid_x() / c, step = c == 1 ? nctaid_x() : nctaid_x() / c;
  for_(id, block_rows * cols_ * ranks, step, [&](u32 number) {
    u32 first_row = 0, rows = block_rows,
        rest = number;  // first row of the round and number of its rows, in units of a cluster's tiles
    if (tile_.rounds > 1) {
      const u32 of_round = blocks_of_round() / c, tiles = of_round * cols_ * ranks;
      first_row = number / tiles * of_round;
      rows = min(of_round, block_rows - first_row);
      rest = number % tiles;
    }
    const u32 of_phase = rows * cols_, phase = rest / of_phase;
    TileIndex at = tile_of_block(grouped_raster(rest - phase * of_phase, rows, cols_, tile_.group));
    if (tile_.rounds > 1) at.row = at.row + first_row * c;
    const u32 turned = rank_ + (ranks + static_cast<uint32_t>(first_)) - phase;
    const u32 owner = turned % ranks, block = owner * rows_ + at.row;
    pred is_inside = at.row < rows_;
    if (all_) is_inside = is_inside & (block < *all_);
    body({phase, owner, at.row * tile_.bm, at.col * tile_.bn, block, is_inside});
  });
}

int64_t rows_of_rank(RankedForm form, const RankedTile& t, int64_t rows) {
  return form == RankedForm::all_reduce ? quotient(rows, int64_t{t.ranks} * t.bm) * t.bm : rows;
}

int64_t ranked_blocks(RankedForm form, const RankedTile& t, int64_t rows, int64_t n) {
  const int64_t of_rows = quotient(rows_of_rank(form, t, rows), t.bm) * t.ranks,
                of_tiles = of_rows * quotient(n, t.bn) * t.consumers();
  if (form == RankedForm::all_gather) return of_rows;
  return form == RankedForm::all_reduce ? of_tiles + of_rows : of_tiles;
}

int64_t clusters_at_once(const RankedTile& t, int multiprocessors) {
  return std::max<int64_t>(
      1, int64_t{hopper::clusters_at_once(t.cluster)} * multiprocessors / hopper::multiprocessors);
}

uint32_t ranked_grid(RankedForm form, const RankedTile& t, int64_t rows, int64_t n, int multiprocessors) {
  int64_t clusters = clusters_at_once(t, multiprocessors);
  if (form == RankedForm::reduce_scatter)
    clusters = std::min(clusters, quotient(quotient(rows, t.bm), t.cluster) * quotient(n, t.bn) * t.ranks);
  return static_cast<uint32_t>(clusters * t.cluster);
}

}  // namespace ptxbuilder::kernels
