// add_tma_swizzled: l + r for one 128 x 128 block of f16. In shared memory, blocks consist of panels of 64
// columns with the 128-byte swizzle, which is the layout that tensor cores need.
#include "kernels/steps/block.h"

namespace ptxbuilder::kernels {
namespace {

Kernel add_tma_swizzled() {
  Kernel k("add_tma_swizzled");
  auto [L, R, Out] = k.params<TensorMap, TensorMap, TensorMap>("L", "R", "Out");
  k.grid("1");
  describe_addition(k, "L", "R", "Out");
  TileShape block = {kBlock.rows, kBlock.cols};  // two panels of 64 columns, which are copied separately
  auto sL = k.shared<f16>(block, Swizzle128B), sR = k.shared<f16>(block, Swizzle128B);
  auto sOut = k.shared<f16>(block, Swizzle128B);
  Barriers loaded(k, {1});
  sync_threads();

  load_both(loaded[0], sL[0], L, 0, sR[0], R, 0);
  auto layout = wgmma_layout(kBlock.rows, kBlock.cols);  // layout of an accumulator, free of bank conflicts
  store(sOut[0], load<f16>(sL[0], layout) + load<f16>(sR[0], layout));
  store_out(Out, sOut[0], 0, 0);
  return k;
}

const command::Registration registration({
    .name = "add_tma_swizzled",
    .summary = "l + r of one 128 x 128 block of f16, with TMA and a 128-byte swizzle",
    .fields = {},
    .build = [](const command::Fields&) { return add_tma_swizzled(); },
    .run = [](const command::Fields&, command::Run& run) { check_addition(run, true, 128, 128); },
});

}  // namespace
}  // namespace ptxbuilder::kernels
