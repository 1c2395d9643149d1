#include "ptxbuilder/tile/raster.h"

#include <fmt/format.h>

namespace ptxbuilder {

TileIndex grouped_raster(int group, Where where) {
  if (group < 1)
    throw Error(where, fmt::format("grouped_raster: a group has at least one row, not {}", group));
  AtLine line(where);
  u32 cols = nctaid_x(where), rows = nctaid_y(where);
  u32 linear = ctaid_y(where) * cols + ctaid_x(where);  // the order in which CTAs start
  u32 tiles = cols * group;                             // of a full group
  u32 first = linear / tiles * group;
  u32 within = linear % tiles;
  u32 height = min(rows - first, u32(group));  // the last group may be lower
  return {first + within % height, within / height};
}

}  // namespace ptxbuilder
