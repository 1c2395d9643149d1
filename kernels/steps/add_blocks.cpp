// add_blocks: two CTAs compute l + r for 128 x 128 f16. Each CTA processes 64 rows.
#include "kernels/steps/block.h"

namespace ptxbuilder::kernels {
namespace {

constexpr int kRows = 64;  // rows per CTA

Kernel add_blocks() {
  Kernel k("add_blocks");
  auto [l, r, out] = k.params<gptr<f16>, gptr<f16>, gptr<f16>>("l", "r", "out");
  k.grid(std::to_string(kBlock.rows / kRows));
  describe_addition(k, "l", "r", "out");
  auto layout = strided({kRows, kBlock.cols}, 8);
  auto mine = [](gptr<f16> block) {  // this CTA's rows
    return GlobalTensor(block, {kBlock.rows, kBlock.cols}).inner_tile(ctaid_x() * kRows, 0);
  };
  store(mine(out), load(mine(l), layout) + load(mine(r), layout));
  return k;
}

const command::Registration registration({
    .name = "add_blocks",
    .summary = "l + r of 128 x 128 f16, two CTAs of 64 rows each",
    .fields = {},
    .build = [](const command::Fields&) { return add_blocks(); },
    .run = [](const command::Fields&, command::Run& run) { check_addition(run, false, 128, 128); },
});

}  // namespace
}  // namespace ptxbuilder::kernels
