// wgmma_block: D = A B^T for one 128 x 128 x 128 block of f16. The result is a register tile.
#include "kernels/steps/block.h"
#include "kernels/steps/gemm_run.h"
#include "ptxbuilder/product/mma.h"

namespace ptxbuilder::kernels {
namespace {

constexpr int M = 128, N = 128, K = 128;

Kernel wgmma_block() {  // computes D[m,n] = sum_k A[m,k] B[n,k]
  Kernel k("wgmma_block");
  auto [A, B, D] = k.params<TensorMap, TensorMap, TensorMap>("A", "B", "D");
  k.grid("1");
  k.describe({{"A", "128 rows of 128"}, {"B", "128 rows of 128"}, {"D", "A B^T, 128 rows of 128"}});
  auto sA = k.shared<f16>({M, K}, Swizzle128B), sB = k.shared<f16>({N, K}, Swizzle128B);
  auto sD = k.shared<f16>({M, N}, Swizzle128B);
  Barriers loaded(k, {1});
  sync_threads();
  load_both(loaded[0], sA[0], A, 0, sB[0], B, 0);
  Accumulator acc(M, N);
  wgmma_group([&] { acc += sA[0] * sB[0]; });
  wgmma_wait(0);
  store(sD[0], astype<f16>(load<f32>(acc)));
  store_out(D, sD[0], 0, 0);
  return k;
}

void run(const command::Fields&, command::Run& run) {
  run_product(run, {M, N, K, DType::f16, DType::f16}, [&](const auto& a, const auto& b, const auto& d) {
    run.launch({a.tensor(), b.tensor(), d.tensor()});
  });
}

const command::Registration registration({.name = "wgmma_block",
                                          .summary = "one 128 x 128 x 128 product, f16 into f32",
                                          .fields = {},
                                          .build = [](auto&) { return wgmma_block(); },
                                          .run = run});
}  // namespace
}  // namespace ptxbuilder::kernels
