#include "ptxbuilder/tile/raster.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ptxbuilder {
namespace {

// Returns x / d. For x below 2^21, which is nearly always the case, the quotient is computed in f32, with an
// error of less than one. This computation takes about 150 clocks, a third of the time of an integer
// division. Tensor cores would have to wait for an integer division between tiles.
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

// Returns x / d if `condition` holds, and `otherwise` if it does not. There is one overload for device values
// and one for host values.
u32 quotient_where(pred condition, u32 x, u32 d, u32 otherwise) {
  Var<u32> result(otherwise);
  if_(condition, [&] { result = quotient(x, d); });
  return result;
}
int64_t quotient_where(bool condition, int64_t x, int64_t d, int64_t otherwise) {
  return condition ? x / d : otherwise;
}
u32 less_of(u32 a, u32 b) { return min(a, b); }
int64_t less_of(int64_t a, int64_t b) { return std::min(a, b); }
u32 chosen(pred condition, u32 a, u32 b) { return select(condition, a, b); }
int64_t chosen(bool condition, int64_t a, int64_t b) { return condition ? a : b; }

// Returns the row and column of position `linear` in a raster.
template <class Number>
std::pair<Number, Number> place_in_groups(const Number& linear, const Number& rows, const Number& cols,
                                          const Raster& raster) {
  if (raster.columns) {
    const auto [row, col] = place_in_groups<Number>(linear, cols, rows, {raster.group, false, raster.snake});
    return {col, row};
  }
  const Number group(raster.group);
  const Number tiles = cols * group;  // number of tiles in a full group
  const Number above = quotient_where(linear >= tiles, linear, tiles, Number(0));
  const Number first = above * group, within = linear - above * tiles;
  const Number height = less_of(rows - first, group);  // the last group may have fewer rows
  // The division by `group` is usually a shift.
  const Number in_group = quotient_where(height < group, within, height, within / group);
  const Number row = first + (within - in_group * height);
  if (!raster.snake) return {row, in_group};
  return {row, chosen((above & Number(1)) == 1, cols - Number(1) - in_group, in_group)};
}

void check_group(int group, std::string_view operation) {
  if (group < 1) throw Error(fmt::format("{}: a group must have at least one row, not {}", operation, group));
}

Raster snake(int minor_dim, int tile_width) {
  if (minor_dim != 0 && minor_dim != 1)
    throw Error(
        fmt::format("planar_snake: minor_dim must be 0, for rows, or 1, for columns, not {}", minor_dim));
  if (tile_width < 1)
    throw Error(fmt::format("planar_snake: the tile width is {}, but must be at least one", tile_width));
  return {tile_width, minor_dim == 1, true};
}

// Describes the blocks of tiles that are distributed round-robin among the clusters: their number of rows and
// columns, this cluster's first block, and the step to its next block.
struct Blocks {
  u32 rows, cols, first, step;
};

Blocks blocks_of(u32 rows, u32 cols) {
  auto [x, y, z] = Builder::current().signature().cluster;
  if (z != 1)
    throw Error(fmt::format(
        "for_each_tile: the cluster has {} x {} x {} CTAs, but only x and y may be more than one", x, y, z));
  return {ceil_div(rows, x), ceil_div(cols, y), x == 1 ? ctaid_x() : ctaid_x() / x,
          x == 1 ? nctaid_x() : nctaid_x() / x};
}

}  // namespace

TileIndex grouped_raster(u32 linear, u32 rows, u32 cols, Raster raster, Where where) {
  AtLine line(where);
  check_group(raster.group, "grouped_raster");
  const auto [row, col] = place_in_groups<u32>(linear, rows, cols, raster);
  return {row, col};
}

TileIndex planar_snake(u32 linear, u32 rows, u32 cols, int minor_dim, int tile_width, Where where) {
  AtLine line(where);
  return grouped_raster(linear, rows, cols, snake(minor_dim, tile_width));
}

HostTileIndex planar_snake(int64_t linear, int64_t rows, int64_t cols, int minor_dim, int tile_width,
                           Where where) {
  AtLine line(where);
  if (rows < 1 || cols < 1 || linear < 0 || linear >= rows * cols)
    throw Error(fmt::format("planar_snake: position {} is not within {} x {} tiles", linear, rows, cols));
  const auto [row, col] = place_in_groups<int64_t>(linear, rows, cols, snake(minor_dim, tile_width));
  return {row, col};
}

TileIndex grouped_raster(Raster raster, Where where) {
  AtLine line(where);
  u32 cols = nctaid_x(), rows = nctaid_y();
  u32 linear = ctaid_y() * cols + ctaid_x();  // CTAs start in this order
  return grouped_raster(linear, rows, cols, raster);
}

TileIndex tile_of_block(const TileIndex& block, Where where) {
  AtLine line(where);
  const auto [x, y, z] = Builder::current().signature().cluster;
  const u32 row = x == 1 ? block.row : block.row * x + cluster_ctaid_x();
  const u32 col = y == 1 ? block.col : block.col * y + cluster_ctaid_y();
  return {row, col};
}

void for_each_tile(u32 rows, u32 cols, Raster raster, const std::function<void(TileIndex)>& body,
                   Where where) {
  AtLine line(where);
  for_each_tile(rows, cols, raster, {0, 1}, body);
}

void for_each_tile(u32 rows, u32 cols, Raster raster, Turn turn, const std::function<void(TileIndex)>& body,
                   Where where) {
  AtLine line(where);
  const auto index = Builder::current().constant(turn.index);
  if (turn.of < 1 || (index && index->value >= static_cast<uint64_t>(turn.of)))
    throw Error(
        fmt::format("for_each_tile: turn {} of {} was requested; there must be at least one turn, and turns "
                    "are numbered from 0",
                    index ? std::to_string(index->value) : "?", turn.of));
  const Blocks blocks = blocks_of(rows, cols);
  for_(turn.of == 1 ? blocks.first : blocks.first + turn.index * blocks.step, blocks.rows * blocks.cols,
       turn.of == 1 ? blocks.step : blocks.step * turn.of, [&](u32 linear) {
         TileIndex block = grouped_raster(linear, blocks.rows, blocks.cols, raster);
         const TileIndex tile = tile_of_block(block);
         AuthorsCode authors;
         body(tile);
       });
}

u32 tiles_of_cta(u32 rows, u32 cols, Where where) {
  AtLine line(where);
  const Blocks blocks = blocks_of(rows, cols);
  u32 left = max(blocks.rows * blocks.cols, blocks.first) - blocks.first;
  return quotient(left + (blocks.step - 1), blocks.step);
}

}  // namespace ptxbuilder
