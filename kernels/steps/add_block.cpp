// add_block: one CTA computes l + r for one 128 x 128 block of f16, through register tiles.
#include "kernels/steps/block.h"

namespace ptxbuilder::kernels {
namespace {

Kernel add_block() {
  Kernel k("add_block");
  auto [l, r, out] = k.params<gptr<f16>, gptr<f16>, gptr<f16>>("l", "r", "out");
  k.grid("1");
  describe_addition(k, "l", "r", "out");
  auto layout = strided(kBlock, 8);  // a thread accesses 8 elements, which are 16 bytes, at a time
  store(out, load(l, layout) + load(r, layout));
  return k;
}

const command::Registration registration({
    .name = "add_block",
    .summary = "l + r of one 128 x 128 block of f16, one CTA",
    .fields = {},
    .build = [](const command::Fields&) { return add_block(); },
    .run = [](const command::Fields&, command::Run& run) { check_addition(run, false, 128, 128); },
});

}  // namespace
}  // namespace ptxbuilder::kernels
