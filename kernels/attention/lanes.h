// Sums over the lanes of a warp. All lanes must call these functions.
#pragma once

#include "ptxbuilder/ir/instruction.h"
#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder::kernels {

inline constexpr uint32_t kWarp = 32, kAllLanes = 0xffffffff;

inline u32 sum_of_warp(u32 value) { return instruction<"redux.sync.add.u32">(value, kAllLanes); }

// Returns the sum of `value` over this lane and all lower lanes.
inline u32 sum_of_lanes(u32 value) {
  u32 sum = value;
  for (uint32_t distance = 1; distance < kWarp; distance *= 2) {
    const u32 before = shfl_sync_idx(sum, (laneid() - distance) & (kWarp - 1));
    sum = sum + select(laneid() >= distance, before, u32(0));
  }
  return sum;
}

}  // namespace ptxbuilder::kernels
