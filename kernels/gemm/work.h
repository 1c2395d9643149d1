// A piece of a CTA's work in a matrix product.
#pragma once

#include <optional>

#include "kernels/gemm/config.h"
#include "ptxbuilder/product/global_sum.h"

namespace ptxbuilder::kernels {

// The range of rows, or of k, that a group covers. It may be empty.
struct GroupPart {
  u32 begin, end;
};

// A tile of the output, or some of its stages along k.
struct Work {
  u32 x, y;                  // origin of the tile in the output: x is along wgmma's rows, y along its columns
  std::optional<u32> batch;  // with groups, the group; for rows outside all groups, the number of groups
  u32 first, last;           // stages `first` to `last` - 1; with split_k there may be none
  std::optional<TileParts> parts = {};  // with split_last, the CTAs that process the other stages
  std::optional<GroupPart> group = {};
};

}  // namespace ptxbuilder::kernels
