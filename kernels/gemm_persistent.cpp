// gemm_persistent: D[m,n] = sum_k A[m,k] B[n,k] in bf16 with f32 accumulation, any m, n, k that are multiples
// of 8: as many clusters as the GPU holds take tiles in turn, share loads by multicast, and store a tile
// while they compute the next.
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
  int cluster_m = 1, cluster_n = 1;  // CTAs of a cluster: along m they share B, along n they share A
  int group = 16;                    // rows of tiles that are computed together
};

Kernel gemm_persistent(const GemmConfig& c) {
  Kernel k("gemm_persistent");
  k.cluster(static_cast<uint32_t>(c.cluster_m), static_cast<uint32_t>(c.cluster_n));
  auto [A, B, D, M, N, K] =
      k.params<TensorMap, TensorMap, TensorMap, u32, u32, u32>("A", "B", "D", "M", "N", "K");
  auto sA = k.shared<bf16>({c.bm, c.bk}, Swizzle128B, c.stages);
  auto sB = k.shared<bf16>({c.bn, c.bk}, Swizzle128B, c.stages);
  Pipeline pipe(k, c.stages, {sA, sB}, c.bm / 64, Producers::cluster);
  u32 rows = ceil_div(M, c.bm), cols = ceil_div(N, c.bn), depth = ceil_div(K, c.bk);

  k.warpgroups(1, 40, [&](u32) {
    elect([&] {
      auto ring = pipe.producer();  // runs on through the tiles, ahead of the consumers
      for_each_tile(rows, cols, c.group, [&](TileIndex tile) {
        for_(0, depth, [&](u32 kt) {
          auto s = ring.acquire();
          tma_load(sA[s].multicast(ClusterAxis::y), A, kt * c.bk, tile.row * c.bm);
          tma_load(sB[s].multicast(ClusterAxis::x), B, kt * c.bk, tile.col * c.bn);
        });
      });
    });
  });
  k.warpgroups(c.bm / 64, 232, [&](u32 wg) {
    auto ring = pipe.consumer();
    Accumulator acc(64, c.bn);
    for_each_tile(rows, cols, c.group, [&](TileIndex tile) {
      acc.zero();
      for_(0, depth, [&](u32) {
        auto s = ring.wait();
        wgmma_group([&] { mma(acc, sA[s].rows(wg * 64, 64), sB[s]); });
        wgmma_wait(0);
        ring.release(s);
      });
      store<bf16>(D, acc, tile.row * c.bm + wg * 64, tile.col * c.bn);  // is read while the next tile begins
    });
  });
  return k;
}

GemmConfig config(const command::Fields& f) {
  return {f.small("bm"),        f.small("bn"),        f.small("bk"),   f.small("stages"),
          f.small("cluster_m"), f.small("cluster_n"), f.small("group")};
}

void run(const command::Fields& f, command::Run& run) {
  size_t m = static_cast<size_t>(f["m"]), n = static_cast<size_t>(f["n"]), k = static_cast<size_t>(f["k"]);
  command::Tensor a = run.normal(DType::bf16, {k, m}), b = run.normal(DType::bf16, {k, n});
  command::Tensor d = run.output(DType::bf16, {n, m});
  uint32_t x = static_cast<uint32_t>(f["cluster_m"]), y = static_cast<uint32_t>(f["cluster_n"]);
  uint32_t clusters = static_cast<uint32_t>(f["ctas"]) / (x * y);
  run.launch({.grid = {clusters * x, y}},
             {a.tensor(), b.tensor(), d.tensor(), runtime::scalar(static_cast<uint32_t>(m)),
              runtime::scalar(static_cast<uint32_t>(n)), runtime::scalar(static_cast<uint32_t>(k))});
  run.check(d, static_cast<double>(k), [&](size_t i) {
    return dot(a, b, i / n, i % n, {k, k, 1, k, 1}, DType::bf16);
  });
  double dm = static_cast<double>(m), dn = static_cast<double>(n), dk = static_cast<double>(k);
  run.measure(2 * dm * dn * dk, 2 * (dm * dk + dn * dk + dm * dn));
}

const command::Registration registration({
    .name = "gemm_persistent",
    .summary = "bf16 GEMM: persistent clusters with multicast, a tile stored under the next",
    .fields = {{"m", 1024, "rows of A and D", 8},
               {"n", 1024, "rows of B, columns of D", 8},
               {"k", 1024, "columns of A and B", 8},
               {"bm", 128, "rows of a CTA's tile: 64 for each consumer", 64},
               {"bn", 256, "columns of a CTA's tile", 8},
               {"bk", 64, "depth of a stage", 64},
               {"stages", 4, "stages of the ring"},
               {"cluster_m", 1, "CTAs of a cluster along m, which share B"},
               {"cluster_n", 1, "CTAs of a cluster along n, which share A"},
               {"group", 16, "rows of tiles that are computed together"},
               {"ctas", 132, "CTAs of the grid"}},
    .build = [](const command::Fields& f) { return gemm_persistent(config(f)); },
    .run = run,
});

}  // namespace
}  // namespace ptxbuilder::kernels
