// A raster determines which tile of the output a CTA computes, and which tile comes next.
#pragma once

#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder {

// An order of tiles. A group consists of `group` rows of tiles; its tiles are visited column by column from
// left to right, and the groups are visited from top to bottom. With `columns`, a group consists of `group`
// columns, and its tiles are visited row by row. With `snake`, every second group is visited backwards, so
// that it begins next to the end of the previous group (Pallas calls this a planar snake).
struct Raster {
  constexpr Raster(int group = 16, bool columns = false, bool snake = false)  // NOLINT: a number is a group
      : group(group), columns(columns), snake(snake) {}
  int group;
  bool columns, snake;

  bool operator==(const Raster&) const = default;
};

// A tile's row and column, on the device.
struct TileIndex {
  u32 row, col;
};
// A tile's row and column, on the host.
struct HostTileIndex {
  int64_t row, col;
  bool operator==(const HostTileIndex&) const = default;
};

// Returns tile number `linear` of rows x cols tiles. Tiles that are close in this order form a block of about
// `group` rows and as many columns as fit, rather than a few whole rows. CTAs that run at the same time can
// thus share their loads through L2. Every tile is visited once. A group of about sqrt(SMs x bn / bm) makes
// the two sides of the block equally long in elements. Throws Error for a group of less than one.
TileIndex grouped_raster(u32 linear, u32 rows, u32 cols, Raster raster, Where where = Where::here());

// Does the same for this CTA of a grid of (columns, rows) tiles.
TileIndex grouped_raster(Raster raster, Where where = Where::here());

// Returns the position with number `linear` among rows x cols positions. The positions along `minor_dim`, 0
// for rows and 1 for columns, are divided into tiles of `tile_width`, and every second tile is visited
// backwards along the other dimension, as in a snake Raster with groups of `tile_width`. The arguments are
// either all device values or all host values. Throws Error for another dimension, for a width of less than
// 1, and, on the host, for a position out of range.
//   rows 0 and 2 of 8 x 8 in tiles of 2 rows:  0  2  4  6  8 10 12 14   and  30 28 26 24 22 20 18 16
TileIndex planar_snake(u32 linear, u32 rows, u32 cols, int minor_dim, int tile_width,
                       Where where = Where::here());
HostTileIndex planar_snake(int64_t linear, int64_t rows, int64_t cols, int minor_dim, int tile_width,
                           Where where = Where::here());
template <detail::HostInteger L, detail::HostInteger R, detail::HostInteger C>
HostTileIndex planar_snake(L linear, R rows, C cols, int minor_dim, int tile_width,
                           Where where = Where::here()) {
  return planar_snake(int64_t{linear}, int64_t{rows}, int64_t{cols}, minor_dim, tile_width, where);
}

// Returns this CTA's tile in a block that has one tile for each CTA of the cluster: the block's rows
// correspond to the cluster's x axis, and its columns to the y axis.
TileIndex tile_of_block(const TileIndex& block, Where where = Where::here());

// Runs `body` for every tile of this CTA, for a grid that is smaller than the output. Clusters (or single
// CTAs) take blocks of tiles in turn, as in tile_of_block(). All roles of a kernel that call this with the
// same arguments get the same tiles. If the grid is as large as the output, `body` runs once in each CTA. If
// the output is not a multiple of a block, a tile may lie outside of it: TMA loads zeros there and stores
// nothing.
void for_each_tile(u32 rows, u32 cols, Raster raster, const std::function<void(TileIndex)>& body,
                   Where where = Where::here());

// Selects warpgroup `index` of the `of` warpgroups that take the CTA's tiles in turn.
struct Turn {
  u32 index;
  int of = 1;
};
void for_each_tile(u32 rows, u32 cols, Raster raster, Turn turn, const std::function<void(TileIndex)>& body,
                   Where where = Where::here());

// Returns the number of tiles for which for_each_tile() runs its body in this CTA, summed over all turns.
u32 tiles_of_cta(u32 rows, u32 cols, Where where = Where::here());

}  // namespace ptxbuilder
