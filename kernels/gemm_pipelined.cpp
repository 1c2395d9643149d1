// gemm_pipelined: D[m,n] = sum_k A[m,k] B[n,k] in bf16 with f32 accumulation, any m, n, k that are multiples
// of 8: a producer warpgroup loads a ring of stages by TMA, consumer warpgroups multiply.
#include "kernels/command/family.h"
#include "kernels/gemm_reference.h"
#include "ptxbuilder/tile/pipeline.h"
#include "ptxbuilder/tile/raster.h"
#include "ptxbuilder/tile/store.h"

namespace ptxbuilder::kernels {
namespace {

struct GemmConfig {
  int bm = 128, bn = 256, bk = 64;  // the tile of a CTA, and the depth of a stage
  int stages = 4;
};

Kernel gemm_pipelined(const GemmConfig& c) {
  Kernel k("gemm_pipelined");
  auto [A, B, D, K] = k.params<TensorMap, TensorMap, TensorMap, u32>("A", "B", "D", "K");
  auto sA = k.shared<bf16>({c.bm, c.bk}, Swizzle128B, c.stages);
  auto sB = k.shared<bf16>({c.bn, c.bk}, Swizzle128B, c.stages);
  Pipeline pipe(k, c.stages, {sA, sB}, c.bm / 64);  // bytes per stage come from the tiles
  auto [row, col] = grouped_raster(16);             // CTAs side by side share their loads in L2
  u32 m = row * c.bm, n = col * c.bn;

  k.warpgroups(1, 40, [&](u32) {  // producer: one warpgroup, 40 registers a thread
    elect([&] {
      auto ring = pipe.producer();
      for_(0, ceil_div(K, c.bk), [&](u32 kt) {
        auto s = ring.acquire();           // wait until empty, then expect the bytes
        tma_load(sA[s], A, kt * c.bk, m);  // the tile knows its barrier
        tma_load(sB[s], B, kt * c.bk, n);
      });
    });
  });
  k.warpgroups(c.bm / 64, 232, [&](u32 wg) {  // consumers: 64 rows each
    auto ring = pipe.consumer();
    Accumulator acc(64, c.bn);
    for_(0, ceil_div(K, c.bk), [&](u32) {
      auto s = ring.wait();
      wgmma_group([&] { mma(acc, sA[s].rows(wg * 64, 64), sB[s]); });  // fence ... commit
      wgmma_wait(0);
      ring.release(s);
    });
    store<bf16>(D, acc, m + wg * 64, n);  // stmatrix, proxy fence, TMA store
  });
  return k;
}

GemmConfig config(const command::Fields& f) {
  return {f.small("bm"), f.small("bn"), f.small("bk"), f.small("stages")};
}

void run(const command::Fields& f, command::Run& run) {
  size_t m = static_cast<size_t>(f["m"]), n = static_cast<size_t>(f["n"]), k = static_cast<size_t>(f["k"]);
  size_t bm = static_cast<size_t>(f["bm"]), bn = static_cast<size_t>(f["bn"]);
  command::Tensor a = run.normal(DType::bf16, {k, m}), b = run.normal(DType::bf16, {k, n});
  command::Tensor d = run.output(DType::bf16, {n, m});
  runtime::Dim3 grid = {static_cast<uint32_t>((n + bn - 1) / bn), static_cast<uint32_t>((m + bm - 1) / bm)};
  run.launch({.grid = grid}, {a.tensor(), b.tensor(), d.tensor(), runtime::scalar(static_cast<uint32_t>(k))});
  run.check(d, static_cast<double>(k), [&](size_t i) {
    return dot(a, b, i / n, i % n, {k, k, 1, k, 1}, DType::bf16);
  });
  double dm = static_cast<double>(m), dn = static_cast<double>(n), dk = static_cast<double>(k);
  run.measure(2 * dm * dn * dk, 2 * (dm * dk + dn * dk + dm * dn));
}

const command::Registration registration({
    .name = "gemm_pipelined",
    .summary = "bf16 GEMM with a TMA producer and wgmma consumers",
    .fields = {{"m", 1024, "rows of A and D", 8},
               {"n", 1024, "rows of B, columns of D", 8},
               {"k", 1024, "columns of A and B", 8},
               {"bm", 128, "rows of a CTA's tile: 64 for each consumer", 64},
               {"bn", 256, "columns of a CTA's tile", 64},
               {"bk", 64, "depth of a stage", 64},
               {"stages", 4, "stages of the ring"}},
    .build = [](const command::Fields& f) { return gemm_pipelined(config(f)); },
    .run = run,
});

}  // namespace
}  // namespace ptxbuilder::kernels
