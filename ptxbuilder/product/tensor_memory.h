// Products whose sums are in tensor memory (PTX ISA, tcgen05), for sm_100a and related targets. They have
// been checked against the manual, with ptxas, with a proof of the bytes that descriptors read, and on the
// emulator, but they have not been run on such a device.
#pragma once

#include "ptxbuilder/registers/tile.h"
#include "ptxbuilder/tile/tma.h"

namespace ptxbuilder {

// A tile of 128 x n in f32: lane i of tensor memory holds row i, and the columns of the memory are the tile's
// columns (PTX ISA, "Data path layout organization", for 128 rows on one CTA). n must be a multiple of 16 up
// to 256. The first product overwrites the tile.
class TensorAccumulator {
 public:
  // Allocates columns of tensor memory: the next power of two, at least 32. All threads of the CTA
  // synchronize, which makes barriers that were initialised before visible to them. Throws Error inside a
  // role; finishing the kernel throws Error if free() was not called.
  TensorAccumulator(Kernel& kernel, int n, Where where = Where::here());

  int m() const { return 128; }
  int n() const { return n_; }
  tmem address() const { return address_; }

  // Synchronizes all threads of the CTA, and frees the columns. Nothing may access them afterwards.
  void free(Where where = Where::here());

 private:
  friend void mma(TensorAccumulator&, const TileView&, const TileView&, Where);

  int n_;
  uint32_t columns_;
  tmem address_;
  Var<pred> accumulate_;
  std::shared_ptr<bool> freed_;
};

// Computes D += A B: issues the tcgen05.mma of whole tiles of f16 or bf16, one for every 16 elements of k.
// The same single thread must make all calls. The products run asynchronously until tcgen05_commit() signals
// that they are complete. A view has rows along m (or n) and columns along k; a transposed view has rows
// along k. Throws Error that names the shapes, types or swizzle that do not fit.
void mma(TensorAccumulator& d, const TileView& a, const TileView& b, Where where = Where::here());

// Arrives once at a barrier of this CTA when all products that the calling thread has issued are complete:
// the stages that they read are then free, and the sums may be loaded.
void tcgen05_commit(smem barrier, Where where = Where::here());

// Loads `cols` columns, a power of two up to 128, beginning at `first_col`; thread i receives row i. All
// threads of one warpgroup call this after they have waited for the barrier of a tcgen05_commit().
RegisterTile<f32> load(const TensorAccumulator& from, int first_col, int cols, Where where = Where::here());

}  // namespace ptxbuilder
