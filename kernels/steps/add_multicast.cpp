// add_multicast: l + r for two blocks r of 128 x 128 f16 and one block l. A cluster of two CTAs loads l only
// once: each CTA loads half of its rows for both.
#include "kernels/steps/block.h"

namespace ptxbuilder::kernels {
namespace {

constexpr uint32_t kCtas = 2;

Kernel add_multicast() {
  Kernel k("add_multicast");
  auto [L, R, Out] = k.params<TensorMap, TensorMap, TensorMap>("L", "R", "Out");
  k.grid(std::to_string(kCtas));
  describe_addition(k, "L", "R", "Out");
  k.cluster(kCtas);
  TileShape block = {kBlock.rows, kBlock.cols};
  auto sL = k.shared<f16>(block, Swizzle128B), sR = k.shared<f16>(block, Swizzle128B);
  auto sOut = k.shared<f16>(block, Swizzle128B);
  Barriers loaded(k, {1});
  sync_cluster();  // the other CTA's copies will complete a barrier of this CTA

  u32 row = ctaid_x() * kBlock.rows;
  load_both(loaded[0], sL[0].multicast(ClusterAxis::x), L, 0, sR[0], R, row);
  store(sOut[0], load<f16>(sL[0]) + load<f16>(sR[0]));
  store_out(Out, sOut[0], 0, row);
  sync_cluster();  // shared memory must exist as long as the other CTA copies into it
  return k;
}

const command::Registration registration({
    .name = "add_multicast",
    .summary = "l + r of two CTAs that share l by multicast",
    .fields = {},
    .build = [](const command::Fields&) { return add_multicast(); },
    .run = [](const command::Fields&, command::Run& run) { check_addition(run, true, kCtas * 128, 128); },
});

}  // namespace
}  // namespace ptxbuilder::kernels
