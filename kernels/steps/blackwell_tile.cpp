// blackwell_tile: each CTA computes one tile of D with the tensor cores of Blackwell (sm_100a). TMA fills a
// ring of stages, tcgen05.mma adds up products in tensor memory, and four warps store the sums. The kernel
// has not run on a GPU, since no Blackwell device was available. Its result is correct on the emulator, ptxas
// accepts the PTX, and the proof shows that the descriptors read the elements that the copies have written.
#include "kernels/steps/gemm_step.h"
#include "ptxbuilder/product/tensor_memory.h"
#include "ptxbuilder/tile/barrier.h"
#include "ptxbuilder/tile/commit.h"
#include "ptxbuilder/tile/raster.h"

namespace ptxbuilder::kernels {
namespace {

Kernel blackwell_tile(const GemmConfig& c) {
  Kernel k("blackwell_tile", {.target = "sm_100a"});
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
  const std::vector<int> once(static_cast<size_t>(c.stages), 1);
  Barriers full(k, once, {"full"}), empty(k, once, {"empty"}), done(k, {1}, {"done"});
  TensorAccumulator acc(k, c.bn);
  auto [row, col] = grouped_raster(16);  // adjacent CTAs share loads in L2
  u32 m = row * c.bm, n = col * c.bn, depth = ceil_div(K, c.bk);

  elect([&] {  // one thread of the first warp loads
    Phases ring_empty(empty, FirstWait::passes);
    for_(0, depth, [&](u32 kt) {
      u32 s = kt % c.stages;
      ring_empty.wait(s);
      mbarrier_arrive_expect_tx(full[s], sA.stage_bytes() + sB.stage_bytes());
      tma_load(sA[s].on(full[s]), A, kt * c.bk, m);
      c.load_b(sB[s].on(full[s]), B, kt * c.bk, n);
    });
  });
  if_(warp_index() == 1, [&] {
    if_(elect_sync(0xffffffff), [&] {  // one thread of the second warp multiplies
      Phases ring_full(full);
      for_(0, depth, [&](u32 kt) {
        u32 s = kt % c.stages;
        ring_full.wait(s);
        mma(acc, sA[s], c.b_operand(sB[s]));
        tcgen05_commit(empty[s]);  // signals when the stage has been read
      });
      tcgen05_commit(done[0]);
    });
  });

  sync_threads();  // the epilogue of all four warps
  barrier_wait(done[0], 0);
  for (int at = 0; at < c.bn; at += 64) store_rounded(sD[0].cols(at, 64), load(acc, at, 64));
  store_out(D, sD[0], n, m);
  acc.free();
  return k;
}

const command::Registration registration({
    .name = "blackwell_tile",
    .summary = "GEMM on sm_100a with sums in tensor memory; assembled, but never run",
    .fields = step_fields({}, {{"bm", 128, "rows of a CTA's tile: 128", 128},
                               {"bn", 256, "columns of a CTA's tile, up to 256", 64},
                               {"bk", 64, "depth of a stage", 64},
                               {"stages", 4, "stages of the ring, up to 32"}}),
    .build = [](const command::Fields& f) { return step(blackwell_tile(gemm_config(f)), f); },
    .run = run_step,
});

}  // namespace
}  // namespace ptxbuilder::kernels
