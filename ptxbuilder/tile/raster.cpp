#include "ptxbuilder/tile/raster.h"

#include <fmt/format.h>

namespace ptxbuilder {
namespace {

// x / d. Where x is below 2^21, as nearly always, through f32, whose error is then below one: a third of the
// time of an integer division, for which the tensor cores would wait between tiles. It takes some 150 clocks
// even so.
u32 quotient(u32 x, u32 d) {
  Var<u32> result(0);
  if_(
      x < (1 << 21),
      [&] {
        u32 q = u32(f32(x) * div_full_ftz_f32(f32(1), f32(d)));
        s32 rest = s32(x) - s32(q * d);
        result = q - u32(rest < 0) + u32(rest >= s32(d));
      },
      [&] { result = x / d; });
  return result;
}

// The blocks of tiles that clusters take in turn, and which of them this one's are.
struct Blocks {
  uint32_t x, y;  // of tiles, and of a cluster of CTAs
  u32 rows, cols, first, step;
};

Blocks blocks_of(u32 rows, u32 cols) {
  auto [x, y, z] = Builder::current().signature().cluster;
  if (z != 1)
    throw Error(fmt::format("for_each_tile: a cluster of {} x {} x {} CTAs; it serves x and y", x, y, z));
  return {x,
          y,
          ceil_div(rows, x),
          ceil_div(cols, y),
          x == 1 ? ctaid_x() : ctaid_x() / x,
          x == 1 ? nctaid_x() : nctaid_x() / x};
}

}  // namespace

TileIndex grouped_raster(u32 linear, u32 rows, u32 cols, Raster raster, Where where) {
  AtLine line(where);
  if (raster.group < 1)
    throw Error(fmt::format("grouped_raster: a group has at least one row, not {}", raster.group));
  if (raster.columns) {
    auto [row, col] = grouped_raster(linear, cols, rows, {raster.group, false, raster.snake});
    return {col, row};
  }
  u32 tiles = cols * raster.group;  // of a full group
  Var<u32> above(0);
  if_(linear >= tiles, [&] { above = quotient(linear, tiles); });
  u32 first = above * raster.group, within = linear - above * tiles;
  u32 height = min(rows - first, u32(raster.group));  // the last group may be lower
  Var<u32> in_group(within / raster.group);           // a shift, as a rule
  if_(height < raster.group, [&] { in_group = quotient(within, height); });
  u32 col = in_group, row = first + (within - col * height);
  if (raster.snake) col = select((above & 1) == 1, cols - 1 - col, col);
  return {row, col};
}

TileIndex grouped_raster(Raster raster, Where where) {
  AtLine line(where);
  u32 cols = nctaid_x(), rows = nctaid_y();
  u32 linear = ctaid_y() * cols + ctaid_x();  // the order in which CTAs start
  return grouped_raster(linear, rows, cols, raster);
}

void for_each_tile(u32 rows, u32 cols, Raster raster, const std::function<void(TileIndex)>& body,
                   Where where) {
  AtLine line(where);
  for_each_tile(rows, cols, raster, {0, 1}, body);
}

void for_each_tile(u32 rows, u32 cols, Raster raster, Turn turn, const std::function<void(TileIndex)>& body,
                   Where where) {
  AtLine line(where);
  const Blocks blocks = blocks_of(rows, cols);
  for_(turn.of == 1 ? blocks.first : blocks.first + turn.index * blocks.step, blocks.rows * blocks.cols,
       turn.of == 1 ? blocks.step : blocks.step * turn.of, [&](u32 linear) {
         TileIndex block = grouped_raster(linear, blocks.rows, blocks.cols, raster);
         u32 row = blocks.x == 1 ? block.row : block.row * blocks.x + cluster_ctaid_x();
         u32 col = blocks.y == 1 ? block.col : block.col * blocks.y + cluster_ctaid_y();
         AuthorsCode authors;
         body({row, col});
       });
}

u32 tiles_of_cta(u32 rows, u32 cols, Where where) {
  AtLine line(where);
  const Blocks blocks = blocks_of(rows, cols);
  u32 left = max(blocks.rows * blocks.cols, blocks.first) - blocks.first;
  return quotient(left + (blocks.step - 1), blocks.step);
}

}  // namespace ptxbuilder
