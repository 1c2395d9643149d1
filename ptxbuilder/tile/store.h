// The way out of the tensor cores: accumulators through shared memory to global memory by TMA.
#pragma once

#include "ptxbuilder/tile/mma.h"

namespace ptxbuilder {

struct StoreOptions {
  // The tensor's rows are the accumulator's columns: D^T is stored, as when the operands were exchanged.
  bool transposed = false;
  // Only the accumulator's first columns; 0 for all of them.
  int cols = 0;
  // Buffers of each warpgroup, 1 or 2: with one, writing waits for the copy before it.
  int buffers = 2;
  // The third coordinate of a tensor of batches.
  std::optional<u32> batch = {};
  // What becomes of an element before it is rounded. `row` and `col` are the accumulator's coordinates plus m
  // and n, so of the product before transposition. Elements outside the tensor pass through it too and are
  // then dropped.
  std::function<f32(f32 value, u32 row, u32 col)> epilogue = {};
};

// Converts the accumulators to `type` or T (f32, f16, bf16, and s32 of s32; to nearest even) and stores them
// to the box at row m, column n of a row-major tensor by TMA, through buffers of 64 rows x 128 B for each
// warpgroup of the role. All threads of the warpgroup call it; what lies outside the tensor is dropped. The
// copies may still read the buffers when it returns: the next store waits for them, and so does the end of
// the role. Throws Error when the number of columns has no box.
void store(DType type, TensorMap to, const Accumulator& from, u32 m, u32 n, const StoreOptions& options = {},
           Where where = Where::here());
template <class T>
void store(TensorMap to, const Accumulator& from, u32 m, u32 n, const StoreOptions& options = {},
           Where where = Where::here()) {
  store(T::dtype, to, from, m, n, options, where);
}

// A store in the shadow of the next tile's products: take() rounds the accumulators into registers of their
// own, after which the next products may begin, and each step() moves a part of them out, to be called while
// wgmmas run. For 16-bit types; 64 rows x 256 columns take 64 registers a thread.
//   DeferredStore out(DType::bf16, D, acc);
//   for each tile: { ...; wgmma_group(...); out.step(0); wgmma_wait(0); ...; out.take(acc, m, n); }
//   out.finish();
class DeferredStore {
 public:
  // `options.batch` says only whether there is one.
  DeferredStore(DType type, TensorMap to, const Accumulator& shape, const StoreOptions& options = {},
                Where where = Where::here());

  // Between two take() each of them once, in order; before the first take() they do nothing.
  int steps() const;
  void step(int i, Where where = Where::here());

  // For the box at row m, column n.
  void take(const Accumulator& from, u32 m, u32 n, std::optional<u32> batch = {},
            Where where = Where::here());
  // Between two take(), where all steps have been: the next do nothing.
  void skip(Where where = Where::here());
  // All steps of the last.
  void finish(Where where = Where::here());

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace ptxbuilder
