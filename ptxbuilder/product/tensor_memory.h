// Products whose sums are in tensor memory (PTX ISA, tcgen05), on sm_100a and related targets. They are
// checked against the manual, with ptxas, with the proof of the bytes that descriptors read, and on the
// emulator; they have not been run on such a device.
#pragma once

#include "ptxbuilder/registers/tile.h"
#include "ptxbuilder/tile/tma.h"

namespace ptxbuilder {

// A tile of 128 x n in f32: lane i of tensor memory is row i, and the columns of the memory are the tile's
// (PTX ISA, "Data path layout organization", for 128 rows on one CTA). n is a multiple of 16 up to 256. The
// first product overwrites.
class TensorAccumulator {
 public:
  // Allocates columns of tensor memory: the next power of two, at least 32. All threads of the CTA
  // synchronize, which publishes barriers that were made before. Throws Error inside a role, and when the
  // kernel is finished if free() was not called.
  TensorAccumulator(Kernel& kernel, int n, Where where = Where::here());

  int m() const { return 128; }
  int n() const { return n_; }
  tmem address() const { return address_; }

  // All threads of the CTA synchronize, and free the columns. Nothing may access them afterwards.
  void free(Where where = Where::here());

 private:
  friend void mma(TensorAccumulator&, const TileView&, const TileView&, Where);

  int n_;
  uint32_t columns_;
  tmem address_;
  Var<pred> accumulate_;
  std::shared_ptr<bool> freed_;
};

// D += A B: issues the tcgen05.mma of whole tiles of f16 or bf16, one for each 16 elements of k. The same
// single thread always calls it, and the products run asynchronously until tcgen05_commit() signals that they
// are done. A view has rows along m (or n) and columns along k; a transposed view has the reverse. Throws
// Error that names the shapes, types or swizzle that do not fit.
void mma(TensorAccumulator& d, const TileView& a, const TileView& b, Where where = Where::here());

// Arrives once at a barrier of this CTA when all products that the calling thread has issued are done: the
// stages that they read are then free, and the sums may be loaded.
void tcgen05_commit(smem barrier, Where where = Where::here());

// Loads `cols` columns from `first_col` on, a power of two up to 128: thread i holds row i. All threads of
// one warpgroup call it after they have waited for the barrier of a tcgen05_commit().
RegisterTile<f32> load(const TensorAccumulator& from, int first_col, int cols, Where where = Where::here());

}  // namespace ptxbuilder
