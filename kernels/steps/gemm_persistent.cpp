// gemm_persistent: the grid has as many clusters as fit on the GPU, and each cluster processes several tiles
// of D. The CTAs of a cluster share loads through multicast, and store each tile while they compute the next
// one.
#include "kernels/steps/gemm_step.h"
#include "ptxbuilder/isa/hopper.h"
#include "ptxbuilder/product/collective.h"
#include "ptxbuilder/product/store.h"
#include "ptxbuilder/tile/pipeline.h"
#include "ptxbuilder/tile/raster.h"

namespace ptxbuilder::kernels {
namespace {

struct PersistentConfig : GemmConfig {
  int cluster_m, cluster_n;  // CTAs of a cluster along m (they share B) and along n (they share A)
  int group;                 // number of rows of tiles that are computed together
};

Kernel gemm_persistent(const PersistentConfig& c) {
  Kernel k("gemm_persistent");
  k.cluster(static_cast<uint32_t>(c.cluster_m), static_cast<uint32_t>(c.cluster_n));
  auto [A, B, D, M, N, K] =
      k.params<TensorMap, TensorMap, TensorMap, u32, u32, u32>("A", "B", "D", "M", "N", "K");
  auto sA = k.shared(c.input, c.a_tile(), Swizzle128B, c.stages);
  auto sB = k.shared(c.input, c.b_tile(), Swizzle128B, c.stages);
  Pipeline pipe(k, c.stages, {sA, sB}, c.bm / 64, Producers::cluster);
  u32 rows = ceil_div(M, c.bm), cols = ceil_div(N, c.bn), depth = ceil_div(K, c.bk);

  k.warpgroups(1, 40, [&](u32) {
    elect([&] {
      auto ring = pipe.producer();  // runs through all tiles, ahead of the consumers
      for_each_tile(rows, cols, c.group, [&](TileIndex tile) {
        producer_loop(ring, 0, depth, [&](const Stage& s, u32 kt) {
          tma_load(sA[s].multicast(ClusterAxis::y), A, kt * c.bk, tile.row * c.bm);
          c.load_b(sB[s].multicast(ClusterAxis::x), B, kt * c.bk, tile.col * c.bn);
        });
      });
    });
  });
  k.warpgroups(c.bm / 64, 232, [&](u32 wg) {
    auto ring = pipe.consumer();
    Accumulator acc(64, c.bn);
    for_each_tile(rows, cols, c.group, [&](TileIndex tile) {
      acc.zero();
      mainloop(acc, ring, depth,
               [&](const Stage& s) { return std::pair(sA[s].rows(wg * 64, 64), c.b_operand(sB[s])); });
      store(c.output, D, acc, tile.row * c.bm + wg * 64,
            tile.col * c.bn);  // the sums are stored during the next tile
    });
  });
  return k;
}

PersistentConfig config(const command::Fields& f) {
  return {gemm_config(f), f.small("cluster_m"), f.small("cluster_n"), f.small("group")};
}

const command::Registration registration({
    .name = "gemm_persistent",
    .summary = "GEMM of persistent clusters with multicast, which stores a tile while it computes the next",
    .fields = step_fields({}, {{"bm", 128, "rows of a CTA's tile: 64 for each consumer", 64},
                               {"bn", 256, "columns of a CTA's tile", 8},
                               {"bk", 64, "depth of a stage", 64},
                               {"stages", 4, "stages of the ring"},
                               {"cluster_m", 1, "CTAs of a cluster along m, which share B"},
                               {"cluster_n", 1, "CTAs of a cluster along n, which share A"},
                               {"group", 16, "rows of tiles that are computed together"},
                               {"ctas", hopper::multiprocessors, "CTAs of the grid"}}),
    .build = [](const command::Fields& f) { return step(gemm_persistent(config(f)), f); },
    .run = run_step,
});

}  // namespace
}  // namespace ptxbuilder::kernels
