// The next work of a CTA in a matrix product.
#pragma once

#include <optional>

#include "kernels/gemm/config.h"
#include "ptxbuilder/product/global_sum.h"

namespace ptxbuilder::kernels {

// A group of rows or of k, which may be empty.
struct GroupPart {
  u32 begin, end;
};

// A tile, or some of its stages.
struct Work {
  u32 x, y;                  // where the tile begins in the output: x along wgmma's rows, y along its columns
  std::optional<u32> batch;  // with groups: the group, or the number of groups for rows that are in no group
  u32 first, last;           // the stages from `first` to `last` - 1; with split_k there may be none
  std::optional<TileParts> parts = {};  // with split_last: which CTAs have the tile's other stages
  std::optional<GroupPart> group = {};
};

}  // namespace ptxbuilder::kernels
