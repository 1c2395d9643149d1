// Which tile of the output a CTA computes, and which next.
#pragma once

#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder {

// An order of tiles in which neighbours lie in a block of `group` rows of tiles, from left to right, and
// group lies below group; with `columns`, of `group` columns, from top to bottom. With `snake` every second
// group goes back the other way, so that it begins beside where the one before it ended (Pallas calls it
// planar snake).
struct Raster {
  constexpr Raster(int group = 16, bool columns = false, bool snake = false)  // NOLINT: a number is a group
      : group(group), columns(columns), snake(snake) {}
  int group;
  bool columns, snake;

  bool operator==(const Raster&) const = default;
};

struct TileIndex {
  u32 row, col;
};

// The `linear`-th of rows x cols tiles, in an order in which neighbours lie in a block of about `group` rows
// of tiles and as many columns as fit, rather than in a few whole rows, so that CTAs that run at the same
// time share what they load through L2. Every tile is taken once. A group near sqrt(SMs x bn / bm) makes the
// block's two sides equally long in elements. Throws Error for a group below one.
TileIndex grouped_raster(u32 linear, u32 rows, u32 cols, Raster raster, Where where = Where::here());

// The same for a CTA of a grid of (columns, rows) tiles.
TileIndex grouped_raster(Raster raster, Where where = Where::here());

// Runs `body` for every tile of this CTA when the grid is smaller than the output: clusters (or CTAs, without
// clusters) take the blocks of `block` tiles in turn, block.row along the cluster's x and block.col along its
// y. All roles of a kernel that call it with the same arguments see the same tiles. With a grid as large as
// the output it runs once. A tile may lie outside the output when that is no multiple of the cluster: TMA
// loads zeros there and stores nothing.
void for_each_tile(u32 rows, u32 cols, Raster raster, const std::function<void(TileIndex)>& body,
                   Where where = Where::here());

// One of `of` warpgroups that take the CTA's tiles in turn.
struct Turn {
  u32 index;
  int of = 1;
};
void for_each_tile(u32 rows, u32 cols, Raster raster, Turn turn, const std::function<void(TileIndex)>& body,
                   Where where = Where::here());

// How many tiles for_each_tile() has for this CTA, all turns together.
u32 tiles_of_cta(u32 rows, u32 cols, Where where = Where::here());

}  // namespace ptxbuilder
