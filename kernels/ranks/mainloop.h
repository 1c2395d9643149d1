// The consumers' loop in a product of ranks: it adds up the sums of a tile, and stores the previous tile
// during the first steps.
#pragma once

#include "ptxbuilder/product/mma.h"
#include "ptxbuilder/product/store.h"
#include "ptxbuilder/tile/pipeline.h"
#include "ptxbuilder/tile/profile.h"

namespace ptxbuilder::kernels {

inline void ranked_mainloop(Accumulator& sums, Consumer& ring, u32 depth,
                            const std::function<std::pair<TileView, TileView>(const Stage&)>& operands,
                            DeferredStore& before) {
  const auto step = [&](const std::function<void()>& meanwhile) {
    const Stage stage = region("wait", [&] { return ring.wait(); });
    region("wgmma", [&] {
      const auto [a, b] = operands(stage);
      wgmma_group([&, &a = a, &b = b] { mma(sums, a, b); });
      meanwhile();
      wgmma_wait(0);
    });
    ring.release(stage);
  };
  sums.zero();
  const int shadows = before.steps();
  for (int i = 0; i < shadows; ++i)
    if_(
        i < depth, [&] { step([&] { before.step(i); }); }, [&] { before.step(i); });
  for_(u32(static_cast<uint32_t>(shadows)), max(depth, u32(static_cast<uint32_t>(shadows))),
       [&](u32) { step([] {}); });
}

}  // namespace ptxbuilder::kernels
