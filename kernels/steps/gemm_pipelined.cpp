// gemm_pipelined: computes the same product as gemm_warp_specialized, but emit_pipeline_warp_specialized
// emits the roles, the ring and both loops. The kernel specifies only which blocks a step needs, and how the
// step uses them.
#include "kernels/steps/gemm_step.h"
#include "ptxbuilder/product/mma.h"
#include "ptxbuilder/product/store.h"
#include "ptxbuilder/tile/emit_pipeline.h"
#include "ptxbuilder/tile/raster.h"

namespace ptxbuilder::kernels {
namespace {

Kernel gemm_pipelined(const GemmConfig& c) {
  Kernel k("gemm_pipelined");
  auto [A, B, D, K] = k.params<TensorMap, TensorMap, TensorMap, u32>("A", "B", "D", "K");
  auto [row, col] = grouped_raster(16);
  const u32 m = row, n = col;
  const BlockSpec a(A, c.input, c.a_tile(), [&](auto i) { return BlockIndex{m, i[0]}; });
  const BlockSpec b(B, c.input, c.b_tile(), [&](auto i) { return c.b_block(i[0], n); });
  emit_pipeline_warp_specialized(
      k, {ceil_div(K, c.bk)}, {a, b}, {}, {.compute_warpgroups = c.bm / 64, .stages = c.stages},
      [&, D = D](PipelineCompute& pipe) {
        const u32 wg = pipe.warpgroup();
        Accumulator acc(64, c.bn);
        pipe.run([&](PipelineStep& s) {
          wgmma_group([&] { mma(acc, s.in(0).rows(wg * 64, 64), c.b_operand(s.in(1))); });
          wgmma_wait(0);
        });
        store(c.output, D, acc, m * c.bm + wg * 64, n * c.bn);
      });
  return k;
}

const command::Registration registration({
    .name = "gemm_pipelined",
    .summary = "GEMM whose roles, ring and loops emit_pipeline_warp_specialized writes",
    .fields = step_fields({}, {{"bm", 128, "rows of a CTA's tile: 64 for each consumer", 64},
                               {"bn", 256, "columns of a CTA's tile", 64},
                               {"bk", 64, "depth of a stage", 64},
                               {"stages", 4, "stages of the ring"}}),
    .build = [](const command::Fields& f) { return step(gemm_pipelined(gemm_config(f)), f); },
    .run = run_step,
});

}  // namespace
}  // namespace ptxbuilder::kernels
