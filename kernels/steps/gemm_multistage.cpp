// gemm_multistage: each CTA of 128 threads computes one tile of D. The same threads load and multiply: while
// the tensor cores read one stage, TMA fills the others. With only one stage, loading and multiplying
// alternate.
#include "kernels/steps/gemm_step.h"
#include "ptxbuilder/product/collective.h"
#include "ptxbuilder/tile/commit.h"
#include "ptxbuilder/tile/pipeline.h"
#include "ptxbuilder/tile/raster.h"

namespace ptxbuilder::kernels {
namespace {

Kernel gemm_multistage(const GemmConfig& c) {
  Kernel k("gemm_multistage");
  auto [A, B, D, K] = k.params<TensorMap, TensorMap, TensorMap, u32>("A", "B", "D", "K");
  auto [ring, sD] = k.shared_union(  // D is stored through the shared memory of A and B
      [&] {
        return std::array{k.shared(c.input, c.a_tile(), Swizzle128B, c.stages),
                          k.shared(c.input, c.b_tile(), Swizzle128B, c.stages)};
      },
      [&] {
        return k.shared(c.output, {c.bm, c.bn}, Swizzle128B);
      });
  auto& [sA, sB] = ring;
  Pipeline pipe(k, c.stages, {sA, sB}, 1);
  sync_threads();
  auto [row, col] = grouped_raster(16);  // adjacent CTAs share loads in L2
  u32 m = row * c.bm, n = col * c.bn, depth = ceil_div(K, c.bk);

  Producer producer = pipe.producer();
  Consumer consumer = pipe.consumer();
  auto fill = [&](const Stage& s, u32 kt) {
    tma_load(sA[s], A, kt * c.bk, m);
    c.load_b(sB[s], B, kt * c.bk, n);
  };
  const int ahead = std::max(c.stages - 1, 1);  // a load fills the stage that the previous iteration has read
  prologue(producer, depth, ahead, fill);

  Accumulator acc(c.bm, c.bn);
  for_(0, depth, [&](u32 kt) {
    auto load_ahead = [&] {
      elect([&] { if_(kt + ahead < depth, [&] { fill(producer.acquire(), kt + ahead); }); });
    };
    Stage s = consumer.wait();
    wgmma_group([&] { mma(acc, sA[s], c.b_operand(sB[s])); });
    if (c.stages > 1) load_ahead();  // runs while the tensor cores multiply
    wgmma_wait(0);
    consumer.release(s);
    if (c.stages == 1) load_ahead();  // the only stage is free again
  });

  sync_threads();  // the epilogue overwrites stages, so all threads must have finished
  store_rounded(sD[0], load<f32>(acc));
  store_out(D, sD[0], n, m);
  return k;
}

const command::Registration registration({
    .name = "gemm_multistage",
    .summary = "GEMM whose threads load stages ahead and multiply",
    .fields = step_fields({.input = DType::f16, .output = DType::f32, .b_k_major = false},
                          {{"bm", 128, "rows of a CTA's tile", 64},
                           {"bn", 128, "columns of a CTA's tile", 64},
                           {"bk", 64, "depth of a stage", 64},
                           {"stages", 7, "stages of the ring; 1 to load and multiply in turn"}}),
    .build = [](const command::Fields& f) { return step(gemm_multistage(gemm_config(f)), f); },
    .run = run_step,
});

}  // namespace
}  // namespace ptxbuilder::kernels
