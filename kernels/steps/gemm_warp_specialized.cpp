// gemm_warp_specialized: each CTA computes one tile of D. A producer warpgroup fills a ring of stages with
// TMA, consumer warpgroups multiply, and each role gets as many registers as it needs.
#include "kernels/steps/gemm_step.h"
#include "ptxbuilder/product/mma.h"
#include "ptxbuilder/product/store.h"
#include "ptxbuilder/tile/pipeline.h"
#include "ptxbuilder/tile/raster.h"
#include "ptxbuilder/tile/region_chain.h"

namespace ptxbuilder::kernels {
namespace {

Kernel gemm_warp_specialized(const GemmConfig& c) {
  Kernel k("gemm_warp_specialized");
  auto [A, B, D, K] = k.params<TensorMap, TensorMap, TensorMap, u32>("A", "B", "D", "K");
  auto sA = k.shared(c.input, c.a_tile(), Swizzle128B, c.stages);
  auto sB = k.shared(c.input, c.b_tile(), Swizzle128B, c.stages);
  Pipeline pipe(k, c.stages, {sA, sB}, c.bm / 64);  // the tiles determine the bytes per stage
  auto [row, col] = grouped_raster(16);             // adjacent CTAs share loads in L2
  u32 m = row * c.bm, n = col * c.bn;

  k.warpgroups(1, 40, [&](u32) {  // one warpgroup, with 40 registers per thread
    name_role("producer");
    elect([&] {
      auto ring = pipe.producer();
      for_(0, ceil_div(K, c.bk), [&](u32 kt) {
        auto s = region("wait", [&] {
          return ring.acquire();
        });  // waits until the stage is empty, and then expects its bytes
        region("load", [&] {
          tma_load(sA[s], A, kt * c.bk, m);  // signals the barrier of the stage
          c.load_b(sB[s], B, kt * c.bk, n);  // likewise, in the storage order of B
        });
      });
    });
  });
  k.warpgroups(c.bm / 64, 232, [&](u32 wg) {  // each has 64 rows
    name_role("consumer");
    auto ring = pipe.consumer();
    Accumulator acc(64, c.bn);
    region("mainloop", [&] {
      for_(0, ceil_div(K, c.bk), [&](u32) {
        auto s = wait_region("wait", [&] { return ring.wait(); });
        wgmma_group([&] {
          mma(acc, sA[s].rows(wg * 64, 64), c.b_operand(sB[s]));
        });  // includes the fence and the commit
        wgmma_wait(0);
        ring.release(s);
      });
    });
    region("store", [&] {
      store(c.output, D, acc, m + wg * 64, n);
    });  // stores to shared memory, then, after a fence, with TMA
  });
  return k;
}

const command::Registration registration({
    .name = "gemm_warp_specialized",
    .summary = "GEMM with a TMA producer and wgmma consumers",
    .fields = step_fields({}, {{"bm", 128, "rows of a CTA's tile: 64 for each consumer", 64},
                               {"bn", 256, "columns of a CTA's tile", 64},
                               {"bk", 64, "depth of a stage", 64},
                               {"stages", 4, "stages of the ring"}}),
    .build = [](const command::Fields& f) { return step(gemm_warp_specialized(gemm_config(f)), f); },
    .run = run_step,
});

}  // namespace
}  // namespace ptxbuilder::kernels
