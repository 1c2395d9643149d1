// Defines rasters, which determine the order in which CTAs compute the tiles of the output.
#pragma once

#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder {

// An order of tiles. The tiles are divided into groups, each of which consists of `group` rows of tiles. The
// groups are visited from top to bottom; within a group, the tiles are visited column by column, from left to
// right. If `columns` is true, a group consists of `group` columns of tiles instead, and its tiles are
// visited row by row. If `snake` is true, every second group is visited backwards, so that it begins next to
// the end of the previous group (a "planar snake" in Pallas).
struct Raster {
  constexpr Raster(int group = 16, bool columns = false, bool snake = false)  // NOLINT: implicit
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

// Returns tile number `linear` of rows x cols tiles, in the raster's order. Tiles whose numbers are close
// form a block of up to `group` rows of several tiles, rather than a few complete rows. CTAs that run at the
// same time can thus share their loads through L2. Every tile is visited once. With tiles of bm x bn
// elements, a group of about sqrt(SMs x bn / bm) makes the two sides of the block equally long in elements.
// Throws Error if the group size is less than 1.
TileIndex grouped_raster(u32 linear, u32 rows, u32 cols, Raster raster, Where where = Where::here());

// Returns the tile of this CTA in a grid of (columns, rows) CTAs.
TileIndex grouped_raster(Raster raster, Where where = Where::here());

// Returns the position with number `linear` among rows x cols positions. The positions along `minor_dim` (0
// for rows, 1 for columns) are divided into tiles of `tile_width` positions. Every second tile is visited
// backwards along the other dimension, as in a snake Raster with groups of `tile_width`. The arguments
// `linear`, `rows` and `cols` are either all device values or all host values. Throws Error if `minor_dim` is
// neither 0 nor 1, if `tile_width` is less than 1, or if a host value of `linear` is out of range.
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

// Returns this CTA's tile in a block that has one tile for each CTA of the cluster. The block's rows
// correspond to the cluster's x axis, and its columns to the y axis.
TileIndex tile_of_block(const TileIndex& block, Where where = Where::here());

// Runs `body` for every tile of this CTA, for a grid that may be smaller than the output. Blocks of tiles are
// distributed round-robin among the clusters (or single CTAs), and tile_of_block() selects a CTA's tile in a
// block. All roles of a kernel that make this call with the same arguments get the same tiles. If the grid is
// as large as the output, `body` runs once in each CTA. If the output is not a multiple of a block, a tile
// may be outside the output: TMA loads zeros there and stores nothing.
void for_each_tile(u32 rows, u32 cols, Raster raster, const std::function<void(TileIndex)>& body,
                   Where where = Where::here());

// Selects the tiles of warpgroup `index`, if the CTA's tiles are distributed round-robin among `of`
// warpgroups.
struct Turn {
  u32 index;
  int of = 1;
};
void for_each_tile(u32 rows, u32 cols, Raster raster, Turn turn, const std::function<void(TileIndex)>& body,
                   Where where = Where::here());

// Returns the number of times that for_each_tile() runs its body in this CTA, summed over all warpgroups that
// share the tiles.
u32 tiles_of_cta(u32 rows, u32 cols, Where where = Where::here());

}  // namespace ptxbuilder
