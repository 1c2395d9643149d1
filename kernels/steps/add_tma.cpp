// add_tma: l + r for one 128 x 128 block of f16. TMA loads the operands into shared memory and stores the
// sum.
#include "kernels/steps/block.h"

namespace ptxbuilder::kernels {
namespace {

Kernel add_tma() {
  Kernel k("add_tma");
  auto [L, R, Out] = k.params<TensorMap, TensorMap, TensorMap>("L", "R", "Out");
  k.grid("1");
  describe_addition(k, "L", "R", "Out");
  TileShape block = {kBlock.rows, kBlock.cols};
  auto sL = k.shared<f16>(block), sR = k.shared<f16>(block), sOut = k.shared<f16>(block);
  Barriers loaded(k, {1});
  sync_threads();

  load_both(loaded[0], sL[0], L, 0, sR[0], R, 0);
  store(sOut[0], load<f16>(sL[0]) + load<f16>(sR[0]));
  store_out(Out, sOut[0], 0, 0);
  return k;
}

const command::Registration registration({
    .name = "add_tma",
    .summary = "l + r of one 128 x 128 block of f16, loaded and stored with TMA",
    .fields = {},
    .build = [](const command::Fields&) { return add_tma(); },
    .run = [](const command::Fields&, command::Run& run) { check_addition(run, true, 128, 128); },
});

}  // namespace
}  // namespace ptxbuilder::kernels
