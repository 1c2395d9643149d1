// The way out of the tensor cores: accumulators through shared memory to global memory by TMA.
#pragma once

#include "ptxbuilder/tile/mma.h"

namespace ptxbuilder {

struct StoreOptions {
  // The tensor's rows are the accumulator's columns: D^T is stored, as when the operands were exchanged.
  bool transposed = false;
  // Only the accumulator's first columns; 0 for all of them.
  int cols = 0;
  // What becomes of an element before it is rounded. `row` and `col` are the accumulator's coordinates plus m
  // and n, so of the product before transposition. Elements outside the tensor pass through it too and are
  // then dropped.
  std::function<f32(f32 value, u32 row, u32 col)> epilogue = {};
};

// Converts the accumulators to T (f32, f16, bf16; to nearest even) and stores them to the box at row m,
// column n of a row-major tensor by TMA, through two buffers of 64 rows x 128 B for each warpgroup of the
// role. All threads of the warpgroup call it; what lies outside the tensor is dropped. The copies may still
// read the buffers when it returns: the next store waits for them, and so does the end of the role. Throws
// Error when the number of columns has no box.
template <class T>
void store(TensorMap to, const Accumulator& from, u32 m, u32 n, const StoreOptions& options = {},
           Where where = Where::here());

}  // namespace ptxbuilder
