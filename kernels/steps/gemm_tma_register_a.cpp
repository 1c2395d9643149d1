// gemm_tma_register_a: a bf16 product with TMA and wgmma with A in registers: ldmatrix loads A from its box,
// and the tensor cores read only B through a descriptor.
#include "kernels/steps/gemm_combination.h"
#include "ptxbuilder/product/mma.h"
#include "ptxbuilder/product/store.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/pipeline.h"

namespace ptxbuilder::kernels {
namespace {

constexpr int BM = 128, BN = 128, BK = 64, kStages = 4;

Kernel gemm_tma_register_a() {  // D[m,n] = sum_k A[m,k] B[n,k]
  Kernel k("gemm_tma_register_a");
  auto [A, B, D, K] = k.params<TensorMap, TensorMap, TensorMap, u32>("A", "B", "D", "K");
  state_launch(k, BM, BN, "extent(D, 1)", "extent(D, 0)");
  auto sA = k.shared<bf16>({BM, BK}, Swizzle128B, kStages, "sA");
  auto sB = k.shared<bf16>({BN, BK}, Swizzle128B, kStages, "sB");
  Pipeline pipe(k, kStages, {sA, sB}, BM / 64);

  u32 row = ctaid_y() * BM, col = ctaid_x() * BN;
  k.warpgroups(1, 40, [&](u32) {
    elect([&] {
      auto ring = pipe.producer();
      for_(0, ceil_div(K, BK), [&](u32 kt) {
        auto s = ring.acquire();
        tma_load(sA[s], A, kt * BK, row);
        tma_load(sB[s], B, kt * BK, col);
      });
    });
  });
  k.warpgroups(BM / 64, 232, [&](u32 wg) {
    auto ring = pipe.consumer();
    Accumulator acc(64, BN);
    for_(0, ceil_div(K, BK), [&](u32) {
      auto s = ring.wait();
      auto a = load<bf16>(sA[s].rows(wg * 64, 64), wgmma_layout(64, BK));  // with ldmatrix
      wgmma_group([&] { mma(acc, a, sB[s]); });
      wgmma_wait(0);
      ring.release(s);
    });
    store<bf16>(D, acc, row + wg * 64, col);
  });
  return k;
}

void run(const command::Fields& f, command::Run& run) {
  run_combination(f, run, [&](const auto& a, const auto& b, const auto& d) {
    return std::vector{a.tensor(), b.tensor(), d.tensor(), size_argument(f, "k")};
  });
}

const command::Registration registration({
    .name = "gemm_tma_register_a",
    .summary = "bf16 GEMM: TMA, ldmatrix for A, wgmma with A in registers",
    .fields = combination_fields(),
    .build = [](const command::Fields&) { return gemm_tma_register_a(); },
    .run = run,
});

}  // namespace
}  // namespace ptxbuilder::kernels
