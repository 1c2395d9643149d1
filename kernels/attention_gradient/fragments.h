// The layout of the sums of dQ, which consumers and the kernel that completes the sums share.
#pragma once

#include "kernels/attention_gradient/config.h"
#include "ptxbuilder/registers/tile.h"
#include "ptxbuilder/tile/shared_tile.h"

namespace ptxbuilder::kernels {

// The sums of a block of queries consist of a part for each consumer, in the layout of an accumulator. The
// parts are the upper and lower rows if depth is 64, and otherwise the left and right columns. Blocks of 80
// rows are transposed. In memory, the numbers of a thread are stored in groups of four, thread by thread, so
// that all accesses have 16 bytes. Wide parts are divided into pieces that pass through shared memory one
// after the other, to save memory.
struct GradientFragments {
  static constexpr int kStep =
      4 * RegisterLayout::kThreads;  // numbers that all threads together access at a time

  GradientFragments(const AttentionGradientOperation& o, const AttentionGradientTile& t)
      : are_columns(o.depth > 64),
        are_transposed(t.bm % t.kPart != 0),
        rows(t.cta_rows()),
        columns(o.depth > 128 ? o.depth / t.kConsumers : 64) {}

  int elements() const { return rows * columns; }
  int pieces() const { return columns > 64 ? 2 : 1; }
  RegisterLayout layout() const {
    return are_transposed ? wgmma_layout(columns, rows) : wgmma_layout(rows, columns);
  }
  RegisterLayout memory() const { return strided({elements() / kStep, kStep}, 4); }
  RegisterLayout piece() const { return strided({elements() / pieces() / kStep, kStep}, 4); }

  RegisterTile<f32> to_memory(const RegisterTile<f32>& x, int i) const {
    const int first = i * x.count() / pieces();
    return RegisterTile<f32>::of(piece(), [&](int k) { return x.value(first + k); });
  }
  RegisterTile<f32> from_memory(const RegisterTile<f32>& x) const {
    return RegisterTile<f32>::of(layout(), [&](int i) { return x.value(i); });
  }

  bool are_columns, are_transposed;
  int rows, columns;
};

}  // namespace ptxbuilder::kernels
