// The main loop of consumers in a multi-GPU product. It adds up the products of a tile, and stores the
// previous tile during the first steps.
#pragma once

#include "ptxbuilder/product/mma.h"
#include "ptxbuilder/product/store.h"
#include "ptxbuilder/tile/pipeline.h"
#include "ptxbuilder/tile/profile.h"

namespace ptxbuilder::kernels {

// Adds up `depth` stages of `ring` in `sums`, and stores `before`, the previous tile, during the first steps.
// If given, `is_stored` is called once, a fixed number of steps after the last store was issued.
inline void ranked_mainloop(Accumulator& sums, Consumer& ring, u32 depth,
                            const std::function<std::pair<TileView, TileView>(const Stage&)>& operands,
                            DeferredStore& before, const std::function<void()>& is_stored = nullptr) {
  const auto step = [&](const std::function<void()>& meanwhile) {
    const Stage stage = wait_region("wait", [&] { return ring.wait(); });
    const auto [a, b] = operands(stage);
    wgmma_group([&, &a = a, &b = b] { mma(sums, a, b); });
    meanwhile();
    wgmma_wait(0);
    ring.release(stage);
  };
  sums.zero();
  region("mainloop", [&] {
    const int shadows = before.steps();
    for (int i = 0; i < shadows; ++i)
      if_(
          i < depth, [&] { step([&] { before.step(i); }); }, [&] { before.step(i); });
    const u32 first = static_cast<uint32_t>(shadows), last = max(depth, first);
    const auto steps = [&](u32 from, u32 to) { for_(from, to, [&](u32) { step([] {}); }); };
    if (!is_stored) return steps(first, last);
    constexpr uint32_t kStepsOfStore = 24;  // a store to another GPU takes microseconds if the link is busy
    const u32 stored = min(first + kStepsOfStore, last);
    steps(first, stored);
    is_stored();
    steps(stored, last);
  });
}

}  // namespace ptxbuilder::kernels
