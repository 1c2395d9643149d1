// Defines building blocks for kernels with roles: operations that the warpgroups of a CTA perform on a ring
// of stages. CUTLASS calls such operations collectives.
#pragma once

#include <utility>

#include "ptxbuilder/product/mma.h"
#include "ptxbuilder/tile/pipeline.h"
#include "ptxbuilder/tile/profile.h"

namespace ptxbuilder {

// A function that fills a stage or, in a consumer's loop, uses a stage.
using FillStage = std::function<void(const Stage& stage, u32 step)>;

// Runs the loop of a producer. For each step from `first` to `last` - 1, `fill` loads all tiles of a stage as
// soon as the consumers have released the stage. `fill` may also call acquire() of other rings.
inline void producer_loop(Producer& ring, u32 first, u32 last, const FillStage& fill,
                          Where where = Where::here()) {
  AtLine line(where);
  for_(first, last, [&](u32 step) {
    const Stage stage = region("wait", [&] { return ring.acquire(); });
    region("load", [&] {
      AuthorsCode authors;
      fill(stage, step);
    });
  });
}

// Fills the stages of the first `ahead` steps, or of all steps if there are fewer than `ahead`, in one
// thread. Threads that both load and multiply call this before the main loop.
inline void prologue(Producer& ring, u32 steps, int ahead, const FillStage& fill,
                     Where where = Where::here()) {
  AtLine line(where);
  elect([&] { producer_loop(ring, 0, min(steps, u32(ahead)), fill); });
}

// Runs the loop of a consumer. Each step waits for its stage, calls `use`, and releases the stage. When `use`
// returns, this warp's reads of the stage must be complete.
inline void consumer_loop(Consumer& ring, u32 first, u32 last, const FillStage& use,
                          Where where = Where::here()) {
  AtLine line(where);
  for_(first, last, [&](u32 step) {
    const Stage stage = region("wait", [&] { return ring.wait(); });
    {
      AuthorsCode authors;
      use(stage, step);
    }
    ring.release(stage);
  });
}

// Runs the consumer's loop of a matrix product. Each step adds the product of the stage's A and B to `sums`.
inline void mainloop(Accumulator& sums, Consumer& ring, u32 steps,
                     const std::function<std::pair<TileView, TileView>(const Stage&)>& operands,
                     Where where = Where::here()) {
  AtLine line(where);
  const auto step = [&](u32) {
    const Stage stage = wait_region("wait", [&] { return ring.wait(); });
    wgmma_group([&] {
      const auto [a, b] = [&] {
        AuthorsCode authors;
        return operands(stage);
      }();
      mma(sums, a, b);
    });
    wgmma_wait(0);
    ring.release(stage);
  };
  region("mainloop", [&] { for_(0, steps, step); });
}

}  // namespace ptxbuilder
