// dQ's sums, as a consumer of the kernel and the threads of the one that ends them hold them.
#pragma once

#include "kernels/attention_gradient/config.h"
#include "ptxbuilder/registers/tile.h"
#include "ptxbuilder/tile/shared_tile.h"

namespace ptxbuilder::kernels {

// A block of queries has a part for each consumer, in the layout of an accumulator: rows or, where a row has
// two of them, columns. In memory each thread's numbers lie four by four, thread behind thread, so that all
// accesses have 16 bytes.
struct GradientFragments {
  static constexpr int kPart = AttentionGradientTile::kPart, kElements = kPart * kPart,
                       kStep = 4 * RegisterLayout::kThreads;  // numbers that all threads access at once

  static bool are_columns(const AttentionGradientOperation& o) { return o.depth > kPart; }
  static RegisterLayout layout() { return wgmma_layout(kPart, kPart); }
  static RegisterLayout memory() { return strided({kElements / kStep, kStep}, 4); }

  static RegisterTile<f32> to_memory(const RegisterTile<f32>& x) {
    return RegisterTile<f32>::of(memory(), [&](int i) { return x.value(i); });
  }
  static RegisterTile<f32> from_memory(const RegisterTile<f32>& x) {
    return RegisterTile<f32>::of(layout(), [&](int i) { return x.value(i); });
  }
};

}  // namespace ptxbuilder::kernels
