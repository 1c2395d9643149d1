// gemm_tma_mma_sync: a bf16 product with TMA and mma.sync: boxes arrive swizzled, ldmatrix reads them without
// bank conflicts, and warps multiply in registers.
#include "kernels/steps/gemm_combination.h"
#include "ptxbuilder/plan/bank_conflicts.h"
#include "ptxbuilder/product/warp_mma.h"
#include "ptxbuilder/tile/cooperative_copy.h"
#include "ptxbuilder/tile/pipeline.h"
#include "ptxbuilder/tile/tma.h"

namespace ptxbuilder::kernels {
namespace {

constexpr int BM = 64, BN = 64, BK = 64, kStages = 4;
constexpr int WM = 32, WN = 32;  // for a warp: 2 x 2 of them share the tile

Kernel gemm_tma_mma_sync() {  // D[m,n] = sum_k A[m,k] B[n,k]
  Kernel k("gemm_tma_mma_sync");
  auto [A, B, D, m, n, K] =
      k.params<TensorMap, TensorMap, gptr<bf16>, u32, u32, u32>("A", "B", "D", "m", "n", "K");
  state_launch(k, BM, BN, "m", "n");
  k.describe({{"m", "rows of A and D"}, {"n", "rows of B, columns of D"}});
  auto sA = k.shared<bf16>({BM, BK}, Swizzle128B, kStages, "sA");
  auto sB = k.shared<bf16>({BN, BK}, Swizzle128B, kStages, "sB");
  Pipeline pipe(k, kStages, {sA, sB}, 1);

  // This maps elements to threads: warps first down, then across; likewise the instructions of a warp, with k
  // outermost.
  const MmaAtom atom = MmaAtom::mma_sync(DType::f32, DType::bf16, DType::bf16, 16);
  const int down = WM / 16, across = WN / 8, steps = BK / 16;
  Layout a =
      repeated(within_rows(atom.layout_a(), 16, 16, BM), {{2, WM}, {2, 0}}, {{down, 16}, {steps, 16 * BM}});
  Layout b =
      repeated(within_rows(atom.layout_b(), 8, 16, BN), {{2, 0}, {2, WN}}, {{across, 8}, {steps, 16 * BN}});
  Layout c = repeated(within_rows(atom.layout_c(), 16, 8, BM), {{2, WM}, {2, WN * BM}},
                      {{down, 16}, {across, 8 * BM}});
  TiledCopy load_a(CopyAtom::ldmatrix(4), DType::bf16, a, sA[0].layout());
  TiledCopy load_b(CopyAtom::ldmatrix(4), DType::bf16, b, sB[0].layout());
  TiledCopy store_d(CopyAtom::vector(4), DType::bf16, c, panel_layout(DType::bf16, BM, BN, SwizzleNone));
  check_conflict_free(load_a);
  check_conflict_free(load_b);

  u32 row = ctaid_y() * BM, col = ctaid_x() * BN;
  k.warpgroups(1, 0, [&](u32) {
    elect([&] {
      auto ring = pipe.producer();
      for_(0, ceil_div(K, BK), [&](u32 kt) {
        auto s = ring.acquire();
        tma_load(sA[s], A, kt * BK, row);
        tma_load(sB[s], B, kt * BK, col);
      });
    });
  });
  k.warpgroups(1, 0, [&](u32) {
    auto ring = pipe.consumer();
    u32 thread = tid_x() % 128;
    std::vector<Var<f32>> acc;
    for (int i = 0; i < down * across * 4; ++i) acc.emplace_back(0);
    for_(0, ceil_div(K, BK), [&](u32) {
      auto s = ring.wait();
      for (int step = 0; step < steps; ++step) {
        const int of_a = load_a.accesses() / steps, of_b = load_b.accesses() / steps;
        std::vector<u32> ra = load(load_a, sA[s], thread, step * of_a, of_a);
        std::vector<u32> rb = load(load_b, sB[s], thread, step * of_b, of_b);
        for (size_t j = 0; j < across; ++j)
          for (size_t i = 0; i < down; ++i)
            mma(atom, std::span(acc).subspan(4 * (i + down * j), 4), std::span(ra).subspan(4 * i, 4),
                std::span(rb).subspan(2 * j, 2));
      }
      bar_warp_sync(0xffffffff);  // every lane has read: lane 0 releases for the warp
      ring.release(s);
    });
    std::vector<u32> packed;
    for (size_t i = 0; i < acc.size(); i += 2) packed.push_back(pack(DType::bf16, acc[i], acc[i + 1]));
    store(store_d, GlobalTensor(D, {m, n}).tile(row, col), thread, packed);
  });
  return k;
}

void run(const command::Fields& f, command::Run& run) {
  run_combination(f, run, [&](const auto& a, const auto& b, const auto& d) {
    return std::vector{
        a.tensor(),           b.tensor(), d.pointer(), size_argument(f, "m"), size_argument(f, "n"),
        size_argument(f, "k")};
  });
}

const command::Registration registration({
    .name = "gemm_tma_mma_sync",
    .summary = "bf16 GEMM: TMA, ldmatrix and mma.sync.m16n8k16",
    .fields = combination_fields(),
    .build = [](const command::Fields&) { return gemm_tma_mma_sync(); },
    .run = run,
});

}  // namespace
}  // namespace ptxbuilder::kernels
