// saxpy_tma: y = alpha x + y for an m x n matrix. Each CTA processes one row, which TMA loads into shared
// memory.
#include "kernels/family/family.h"
#include "kernels/steps/saxpy_run.h"
#include "ptxbuilder/ir/global_tensor.h"
#include "ptxbuilder/tile/barrier.h"
#include "ptxbuilder/tile/tma.h"

namespace ptxbuilder::kernels {
namespace {

Kernel saxpy_tma(int n) {
  Kernel k("saxpy_tma");
  auto [X, Y, y, alpha] = k.params<TensorMap, TensorMap, gptr<f32>, f32>("X", "Y", "y", "alpha");
  k.threads(static_cast<uint32_t>(n));
  k.grid("extent(X, 1)");
  k.describe({{"X", "the factor of alpha, one row per CTA"},
              {"Y", "the addend"},
              {"y", "the result, at Y's address"},
              {"alpha", "a factor"}});
  auto sX = k.shared<f32>({1, n}), sY = k.shared<f32>({1, n});
  Barriers loaded(k, {1});
  sync_threads();

  u32 row = ctaid_x(), i = tid_x();
  if_(i == 0, [&] {
    mbarrier_arrive_expect_tx(loaded[0], sX.stage_bytes() + sY.stage_bytes());
    tma_load(sX[0].on(loaded[0]), X, 0, row);
    tma_load(sY[0].on(loaded[0]), Y, 0, row);
  });
  barrier_wait(loaded[0], 0);
  sptr<f32> tile_x(sX[0].address()), tile_y(sY[0].address());
  GlobalTensor out(y, {nctaid_x(), n});
  out(row, i) = fma(alpha, tile_x[i], tile_y[i]);
  return k;
}

void run(const command::Fields& f, command::Run& run) {
  if (static_cast<uint64_t>(f["m"]) * static_cast<uint64_t>(f["n"]) > UINT32_MAX)
    throw Error("saxpy_tma: m n must be below 2^32");
  run_saxpy(f, run, [&](command::Tensor& x, command::Tensor& y) {
    return std::vector{x.tensor(), y.tensor(), y.pointer(), runtime::scalar(kAlpha)};
  });
}

const command::Registration registration({
    .name = "saxpy_tma",
    .summary = "y = alpha x + y with rows that TMA loads",
    .fields = {{"m", 256, "rows, one a CTA"}, {"n", 32, "columns, one a thread: at most 256", 4}},
    .build = [](const command::Fields& f) { return saxpy_tma(f.small("n")); },
    .run = run,
});

}  // namespace
}  // namespace ptxbuilder::kernels
