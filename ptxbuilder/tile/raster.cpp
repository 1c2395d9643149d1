#include "ptxbuilder/tile/raster.h"

#include <fmt/format.h>

namespace ptxbuilder {
namespace {

// x / d. Where x is below 2^21, as nearly always, through f32, whose error is then below one: a third of the
// time of an integer division, for which the tensor cores would wait between tiles.
u32 quotient(u32 x, u32 d, Where where) {
  Var<u32> result(0);
  if_(
      x < (1 << 21),
      [&] {
        u32 q = u32(f32(x) * div_full_ftz_f32(f32(1), f32(d), where));
        s32 rest = s32(x) - s32(q * d);
        result = q - u32(rest < 0) + u32(rest >= s32(d));
      },
      [&] { result = x / d; }, where);
  return result;
}

}  // namespace

TileIndex grouped_raster(u32 linear, u32 rows, u32 cols, Raster raster, Where where) {
  if (raster.group < 1)
    throw Error(where, fmt::format("grouped_raster: a group has at least one row, not {}", raster.group));
  AtLine line(where);
  if (raster.columns) {
    auto [row, col] = grouped_raster(linear, cols, rows, {raster.group, false, raster.snake}, where);
    return {col, row};
  }
  u32 tiles = cols * raster.group;  // of a full group
  u32 above = quotient(linear, tiles, where);
  u32 first = above * raster.group, within = linear - above * tiles;
  u32 height = min(rows - first, u32(raster.group));  // the last group may be lower
  u32 col = quotient(within, height, where), row = first + (within - col * height);
  if (raster.snake) col = select((above & 1) == 1, cols - 1 - col, col);
  return {row, col};
}

TileIndex grouped_raster(Raster raster, Where where) {
  AtLine line(where);
  u32 cols = nctaid_x(where), rows = nctaid_y(where);
  u32 linear = ctaid_y(where) * cols + ctaid_x(where);  // the order in which CTAs start
  return grouped_raster(linear, rows, cols, raster, where);
}

void for_each_tile(u32 rows, u32 cols, Raster raster, const std::function<void(TileIndex)>& body,
                   Where where) {
  for_each_tile(rows, cols, raster, {0, 1}, body, where);
}

void for_each_tile(u32 rows, u32 cols, Raster raster, Turn turn, const std::function<void(TileIndex)>& body,
                   Where where) {
  AtLine line(where);
  auto [x, y, z] = Builder::current(where).signature().cluster;
  if (z != 1)
    throw Error(where,
                fmt::format("for_each_tile: a cluster of {} x {} x {} CTAs; it serves x and y", x, y, z));
  u32 block_rows = ceil_div(rows, x), block_cols = ceil_div(cols, y);
  u32 first = x == 1 ? ctaid_x(where) : ctaid_x(where) / x;
  u32 clusters = x == 1 ? nctaid_x(where) : nctaid_x(where) / x;
  for_(
      turn.of == 1 ? first : first + turn.index * clusters, block_rows * block_cols,
      turn.of == 1 ? clusters : clusters * turn.of,
      [&](u32 linear) {
        TileIndex block = grouped_raster(linear, block_rows, block_cols, raster, where);
        u32 row = x == 1 ? block.row : block.row * x + cluster_ctaid_x(where);
        u32 col = y == 1 ? block.col : block.col * y + cluster_ctaid_y(where);
        AuthorsCode authors;
        body({row, col});
      },
      where);
}

}  // namespace ptxbuilder
