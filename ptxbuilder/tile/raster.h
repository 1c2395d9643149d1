// Which tile of the output a CTA computes, and which next.
#pragma once

#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder {

struct TileIndex {
  u32 row, col;
};

// The `linear`-th of rows x cols tiles, in an order in which neighbours lie in a block of about `group` rows
// of tiles and as many columns as fit, rather than in a few whole rows, so that CTAs that run at the same
// time share what they load through L2. Every tile is taken once. A group near sqrt(SMs x bn / bm) makes the
// block's two sides equally long in elements.
TileIndex grouped_raster(u32 linear, u32 rows, u32 cols, int group, Where where = Where::here());

// The same for a CTA of a grid of (columns, rows) tiles.
TileIndex grouped_raster(int group, Where where = Where::here());

// Runs `body` for every tile of this CTA when the grid is smaller than the output: clusters (or CTAs, without
// clusters) take the blocks of `block` tiles in turn, block.row along the cluster's x and block.col along its
// y. All roles of a kernel that call it with the same arguments see the same tiles. With a grid as large as
// the output it runs once. A tile may lie outside the output when that is no multiple of the cluster: TMA
// loads zeros there and stores nothing.
void for_each_tile(u32 rows, u32 cols, int group, const std::function<void(TileIndex)>& body,
                   Where where = Where::here());

// One of `of` warpgroups that take the CTA's tiles in turn.
struct Turn {
  u32 index;
  int of = 1;
};
void for_each_tile(u32 rows, u32 cols, int group, Turn turn, const std::function<void(TileIndex)>& body,
                   Where where = Where::here());

}  // namespace ptxbuilder
