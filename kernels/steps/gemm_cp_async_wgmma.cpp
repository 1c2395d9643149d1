// gemm_cp_async_wgmma: a bf16 product with cp.async and wgmma: threads copy their pieces to swizzled places,
// and the tensor cores read both operands through descriptors. A and B need no tensor map, so rows may begin
// anywhere.
#include "kernels/steps/gemm_combination.h"
#include "ptxbuilder/plan/bank_conflicts.h"
#include "ptxbuilder/product/mma.h"
#include "ptxbuilder/product/store.h"
#include "ptxbuilder/tile/commit.h"
#include "ptxbuilder/tile/cooperative_copy.h"

namespace ptxbuilder::kernels {
namespace {

constexpr int BM = 128, BN = 128, BK = 64, kStages = 3, kThreads = 128;

Kernel gemm_cp_async_wgmma() {  // D[m,n] = sum_k A[m,k] B[n,k]
  Kernel k("gemm_cp_async_wgmma");
  auto [A, B, D, m, n, K] =
      k.params<gptr<bf16>, gptr<bf16>, TensorMap, u32, u32, u32>("A", "B", "D", "m", "n", "K");
  state_launch(k, BM, BN, "m", "n");
  k.describe({{"m", "rows of A and D"}, {"n", "rows of B, columns of D"}});
  GlobalTensor a(A, {m, K}), b(B, {n, K});
  auto sA = k.shared<bf16>({BM, BK}, Swizzle128B, kStages, "sA");
  auto sB = k.shared<bf16>({BN, BK}, Swizzle128B, kStages, "sB");
  const CopyAtom atom = CopyAtom::cp_async(16);
  TiledCopy copy_a(atom, DType::bf16, threads_along_rows(BM, BK, kThreads, 8), sA[0].layout());
  TiledCopy copy_b(atom, DType::bf16, threads_along_rows(BN, BK, kThreads, 8), sB[0].layout());
  check_conflict_free(copy_a);
  check_conflict_free(copy_b);

  u32 row = ctaid_y() * BM, col = ctaid_x() * BN, steps = ceil_div(K, BK);
  auto fetch = [&](u32 kt) {  // one group, empty after the end, so that waits can count
    if_(kt < steps, [&] {
      load_async(copy_a, sA[kt % kStages], a.tile(row, kt * BK), tid_x());
      load_async(copy_b, sB[kt % kStages], b.tile(col, kt * BK), tid_x());
    });
    cp_async_commit_group();
  };
  for (int kt = 0; kt < kStages - 1; ++kt) fetch(kt);

  Accumulator acc(BM, BN);
  for_(0, steps, [&](u32 kt) {
    cp_async_wait_group(kStages - 2);
    commit_smem();  // wgmma sees all pieces, and all warps have finished with the stage before
    fetch(kt + (kStages - 1));
    u32 s = kt % kStages;
    wgmma_group([&] { mma(acc, sA[s], sB[s]); });
    wgmma_wait(0);
  });
  store<bf16>(D, acc, row, col);
  return k;
}

void run(const command::Fields& f, command::Run& run) {
  run_combination(f, run, [&](const auto& a, const auto& b, const auto& d) {
    return std::vector{a.pointer(),           b.pointer(),           d.tensor(),
                       size_argument(f, "m"), size_argument(f, "n"), size_argument(f, "k")};
  });
}

const command::Registration registration({
    .name = "gemm_cp_async_wgmma",
    .summary = "bf16 GEMM: cp.async to swizzled shared memory, wgmma by descriptors",
    .fields = combination_fields(),
    .build = [](const command::Fields&) { return gemm_cp_async_wgmma(); },
    .run = run,
});

}  // namespace
}  // namespace ptxbuilder::kernels
