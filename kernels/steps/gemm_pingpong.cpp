// gemm_pingpong: persistent CTAs each process several tiles of D. The two consumers of a CTA process its
// tiles alternately: while one multiplies, the other stores its previous tile.
#include "kernels/steps/gemm_step.h"
#include "ptxbuilder/isa/hopper.h"
#include "ptxbuilder/product/collective.h"
#include "ptxbuilder/product/store.h"
#include "ptxbuilder/tile/pipeline.h"
#include "ptxbuilder/tile/profile.h"
#include "ptxbuilder/tile/raster.h"

namespace ptxbuilder::kernels {
namespace {

constexpr int kConsumers = 2;

Kernel gemm_pingpong(const GemmConfig& c, int group) {
  Kernel k("gemm_pingpong");
  auto [A, B, D, M, N, K] =
      k.params<TensorMap, TensorMap, TensorMap, u32, u32, u32>("A", "B", "D", "M", "N", "K");
  auto sA = k.shared(c.input, c.a_tile(), Swizzle128B, c.stages);
  auto sB = k.shared(c.input, c.b_tile(), Swizzle128B, c.stages);
  Pipeline pipe(k, c.stages, {sA, sB}, 1);  // each stage has one consumer
  Turns turns(k, kConsumers);
  u32 rows = ceil_div(M, c.bm), cols = ceil_div(N, c.bn), depth = ceil_div(K, c.bk);

  k.warpgroups(1, 40, [&](u32) {
    name_role("producer");
    elect([&] {
      auto ring = pipe.producer();  // runs through the tiles of both consumers
      for_each_tile(rows, cols, group, [&](TileIndex tile) {
        producer_loop(ring, 0, depth, [&](const Stage& s, u32 kt) {
          tma_load(sA[s], A, kt * c.bk, tile.row * c.bm);
          c.load_b(sB[s], B, kt * c.bk, tile.col * c.bn);
        });
      });
    });
  });
  k.warpgroups(kConsumers, 232, [&](u32 wg) {
    name_role("consumer");
    auto ring = pipe.consumer();
    auto turn = turns.of(wg);
    Accumulator acc(c.bm, c.bn);
    ring.skip(wg * depth);  // skips the tiles before this consumer's first
    for_each_tile(rows, cols, group, Turn{wg, kConsumers}, [&](TileIndex tile) {
      region("turn", [&] { turn.wait(); });  // waits for its turn to use the tensor cores
      acc.zero();
      mainloop(acc, ring, depth, [&](const Stage& s) { return std::pair(sA[s], c.b_operand(sB[s])); });
      turn.pass();
      ring.skip((kConsumers - 1) * depth);
      region("store",  // runs while the other consumer multiplies
             [&] { store(c.output, D, acc, tile.row * c.bm, tile.col * c.bn); });
    });
  });
  return k;
}

const command::Registration registration({
    .name = "gemm_pingpong",
    .summary = "GEMM of persistent CTAs whose two consumers multiply and store in turn",
    .fields = step_fields({}, {{"bm", 128, "rows of a consumer's tile", 64},
                               {"bn", 128, "columns of a consumer's tile", 64},
                               {"bk", 64, "depth of a stage", 64},
                               {"stages", 6, "stages of the ring"},
                               {"group", 16, "rows of tiles that are computed together"},
                               {"ctas", hopper::multiprocessors, "CTAs of the grid"}}),
    .build =
        [](const command::Fields& f) { return step(gemm_pingpong(gemm_config(f), f.small("group")), f); },
    .run = run_step,
});

}  // namespace
}  // namespace ptxbuilder::kernels
