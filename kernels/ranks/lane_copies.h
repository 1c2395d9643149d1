// Copies global memory with the lanes of a warp.
#pragma once

#include <array>
#include <vector>

#include "ptxbuilder/ir/instruction.h"
#include "ptxbuilder/tile/parameters.h"

namespace ptxbuilder::kernels {

// Copies `bytes` bytes, a multiple of 16. All lanes of a warp must call this function. Each lane issues
// several 16-byte loads before it stores.
inline void copy_by_lanes(gmem from, gmem to, u32 bytes) {
  constexpr uint32_t kAtOnce = 4, kStep = 32;
  const u32 units = bytes / 16, lane = laneid(), whole = units / (kStep * kAtOnce) * (kStep * kAtOnce);
  const auto at = [](gmem memory, u32 unit) { return memory + u64(unit) * uint64_t{16}; };
  const auto copy = [&](u32 first, uint32_t count) {
    std::vector<std::array<u32, 4>> words;
    for (uint32_t i = 0; i < count; ++i) {
      const auto [a, b, c, d] = instruction<"ld.global.v4.u32">(at(from, first + i * kStep));
      words.push_back({a, b, c, d});
    }
    for (uint32_t i = 0; i < count; ++i) instruction<"st.global.v4.u32">(at(to, first + i * kStep), words[i]);
  };
  for_(lane, whole, u32(kStep * kAtOnce), [&](u32 first) { copy(first, kAtOnce); });
  for_(whole + lane, units, u32(kStep), [&](u32 first) { copy(first, 1); });
}

}  // namespace ptxbuilder::kernels
