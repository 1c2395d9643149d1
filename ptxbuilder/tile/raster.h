// Which tile of the output a CTA computes.
#pragma once

#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder {

struct TileIndex {
  u32 row, col;
};

// For a grid of (columns, rows) tiles: CTAs that run at the same time work on a block of about `group` rows
// of tiles and as many columns as fit, rather than on a few whole rows, so that they share what they load
// through L2. Every tile is taken once. A group near sqrt(SMs x bn / bm) makes the block's two sides equally
// long in elements.
TileIndex grouped_raster(int group, Where where = Where::here());

}  // namespace ptxbuilder
