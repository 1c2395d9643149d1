#include "kernels/ranks/tile.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/ranks/exchange.h"
#include "ptxbuilder/isa/hopper.h"

namespace ptxbuilder::kernels {

void check(const RankedTile& t) {
  if (t.ranks < 2 || t.ranks > kMostRanks)
    throw Error(fmt::format("a product of {} ranks; there may be 2 to {}", t.ranks, kMostRanks));
  if (!is_half(t.type) && t.type != DType::e4m3)
    throw Error(fmt::format("a product of ranks in {}; it takes bf16, f16 and e4m3", name(t.type)));
  if (!is_half(t.d_type) || (is_half(t.type) && t.d_type != t.type))
    throw Error(fmt::format("a product of ranks of {} into {}; the result is of {}", name(t.type),
                            name(t.d_type), is_half(t.type) ? "the operands' type" : "bf16 or f16"));
  if (t.type == DType::e4m3 && t.b_along_n)
    throw Error(
        "a product of ranks in e4m3 whose B has its columns side by side; tensor cores take it along k");
  if (t.cluster < 1 || t.cluster > 2 || t.stages < 2 || t.group < 1 || (t.bm != 64 && t.bm != 128))
    throw Error(fmt::format(
        "a product of ranks: bm {}, {} stages, clusters of {}, groups of {}; it takes 64 or 128, 2 "
        "or more, 1 or 2, 1 or more",
        t.bm, t.stages, t.cluster, t.group));
}

RankedOrder::RankedOrder(const RankedTile& t, u32 rank, u32 rows, u32 n, int first)
    : tile_(t), first_(first), rank_(rank), rows_(ceil_div(rows, t.bm)), cols_(ceil_div(n, t.bn)) {}

void RankedOrder::each(const std::function<void(const RankedPlace&)>& body) const {
  const int c = tile_.cluster;
  const auto ranks = static_cast<uint32_t>(tile_.ranks);
  const u32 block_rows = c == 1 ? rows_ : ceil_div(rows_, c), of_phase = block_rows * cols_;
  const u32 id = c == 1 ? ctaid_x() : ctaid_x() / c, step = c == 1 ? nctaid_x() : nctaid_x() / c;
  for_(id, of_phase * ranks, step, [&](u32 number) {
    const u32 phase = number / of_phase;
    const TileIndex at =
        tile_of_block(grouped_raster(number - phase * of_phase, block_rows, cols_, tile_.group));
    const u32 turned = rank_ + (ranks + static_cast<uint32_t>(first_)) - phase;
    const u32 owner = turned % ranks;
    body(
        {phase, owner, at.row * tile_.bm, at.col * tile_.bn, owner * rows_ + at.row, at.row, at.row < rows_});
  });
}

uint32_t ranked_grid(const RankedTile& t, int64_t rows, int64_t n, int multiprocessors) {
  auto quotient = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  const int64_t blocks = quotient(quotient(rows, t.bm), t.cluster) * quotient(n, t.bn) * t.ranks;
  const int64_t at_once =
      int64_t{hopper::clusters_at_once(t.cluster)} * multiprocessors / hopper::multiprocessors;
  return static_cast<uint32_t>(std::min(blocks, std::max<int64_t>(1, at_once)) * t.cluster);
}

}  // namespace ptxbuilder::kernels
