// wgmma_multicast: D = A B^T in two CTAs. Each CTA has 64 rows of A, and adds up 64 x 128 sums in f16. B is
// loaded only once for both: each CTA loads half of it.
#include "kernels/steps/block.h"
#include "ptxbuilder/product/mma.h"

namespace ptxbuilder::kernels {
namespace {

constexpr int M = 64, N = 128, K = 128, kCtas = 2;

Kernel wgmma_multicast() {  // computes D[m,n] = sum_k A[m,k] B[n,k]
  Kernel k("wgmma_multicast");
  auto [A, B, D] = k.params<TensorMap, TensorMap, TensorMap>("A", "B", "D");
  k.grid("2");
  k.cluster({{"pair", kCtas}});
  k.describe({{"A", "128 rows of 128"}, {"B", "128 rows of 128"}, {"D", "A B^T, 128 rows of 128"}});
  auto sA = k.shared<f16>({M, K}, Swizzle128B), sB = k.shared<f16>({N, K}, Swizzle128B);
  auto sD = k.shared<f16>({M, N}, Swizzle128B);
  Barriers loaded(k, {1});
  sync_cluster();  // the other CTA's copies will complete a barrier of this CTA

  u32 row = axis_index("pair") * M;
  load_both(loaded[0], sA[0], A, row, sB[0].multicast(cluster_axes({"pair"})), B, 0);
  Accumulator acc(M, N, DType::f16);
  wgmma_group([&] { acc += sA[0] * sB[0]; });
  wgmma_wait(0);
  store(sD[0], load<f16>(acc));
  store_out(D, sD[0], 0, row);
  sync_cluster();  // shared memory must exist as long as the other CTA copies into it
  return k;
}

// The tensor core may round the sums to f16, possibly toward zero, after each step of 16 values of k.
void run(const command::Fields&, command::Run& run) {
  constexpr size_t kRows = size_t{M} * kCtas;
  command::Tensor a = run.normal(DType::f16, {K, kRows}), b = run.normal(DType::f16, {K, N});
  command::Tensor d = run.output(DType::f16, {N, kRows});
  run.launch({a.tensor(), b.tensor(), d.tensor()});
  run.check(d, K, [&](size_t i) {
    double sum = 0, magnitude = 0;
    for (size_t k = 0; k < K; ++k) {
      const double term = a[i / N * K + k] * b[i % N * K + k];
      sum += term, magnitude += std::abs(term);
    }
    return command::Expected{sum, 2 * unit_roundoff(DType::f16) * (K / 16) * magnitude};
  });
  run.measure(2.0 * kRows * N * K, 2.0 * (kRows * K + N * K + kRows * N));
}

const command::Registration registration({.name = "wgmma_multicast",
                                          .summary = "two CTAs that share B by multicast, f16 into f16",
                                          .fields = {},
                                          .build = [](auto&) { return wgmma_multicast(); },
                                          .run = run});
}  // namespace
}  // namespace ptxbuilder::kernels
