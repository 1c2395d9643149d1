// gemm_tile: one 128 x 128 x 64 product on the tensor cores, from f16 to f32, with one warpgroup, one barrier
// and eight wgmmas.
#include "kernels/family/family.h"
#include "kernels/steps/gemm_run.h"
#include "ptxbuilder/product/mma.h"
#include "ptxbuilder/product/store.h"
#include "ptxbuilder/tile/barrier.h"

namespace ptxbuilder::kernels {
namespace {

constexpr int M = 128, N = 128, K = 64;

// Computes D[m,n] = sum_k A[m,k] B[k,n]. All matrices are row-major, so B is contiguous along n, and wgmma
// reads it transposed.
Kernel gemm_tile() {
  Kernel k("gemm_tile");
  auto [A, B, D] = k.params<TensorMap, TensorMap, TensorMap>("A", "B", "D");
  k.grid("1");
  k.describe({{"A", "128 rows of 64"}, {"B", "64 rows of 128"}, {"D", "A B, 128 rows of 128"}});
  auto sA = k.shared<f16>({M, K}, Swizzle128B);
  auto sB = k.shared<f16>({K, N}, Swizzle128B);  // two panels of 64 columns, loaded as two boxes
  Barriers loaded(k, {1});
  sync_threads();

  elect([&] {
    mbarrier_arrive_expect_tx(loaded[0], sA.stage_bytes() + sB.stage_bytes());
    tma_load(sA[0].on(loaded[0]), A, 0, 0);
    tma_load(sB[0].on(loaded[0]), B, 0, 0);
  });
  barrier_wait(loaded[0], 0);

  Accumulator acc(M, N);
  wgmma_group([&] { mma(acc, sA[0], sB[0].transposed()); });
  wgmma_wait(0);
  store<f32>(D, acc, 0, 0);
  return k;
}

void run(const command::Fields&, command::Run& run) {
  run_product(run, {M, N, K, DType::f16, DType::f32, false},
              [&](const auto& a, const auto& b, const auto& d) {
                run.launch({a.tensor(), b.tensor(), d.tensor()});
              });
}

const command::Registration registration({
    .name = "gemm_tile",
    .summary = "one 128 x 128 x 64 tile, f16 into f32, one CTA",
    .fields = {},
    .build = [](const command::Fields&) { return gemm_tile(); },
    .run = run,
});

}  // namespace
}  // namespace ptxbuilder::kernels
