// Emits products whose sums are in tensor memory (PTX ISA, tcgen05), for sm_100a and related targets. The
// code has not been run on such a device. It has been checked against the manual, with ptxas, with a proof of
// the bytes that descriptors read, and on the emulator.
#pragma once

#include "ptxbuilder/registers/tile.h"
#include "ptxbuilder/tile/tma.h"

namespace ptxbuilder {

// A tile of 128 x n elements in f32. Lane i of tensor memory holds row i, and the columns of tensor memory
// are the tile's columns (PTX ISA, "Data path layout organization", for 128 rows on one CTA). n must be a
// multiple of 16 up to 256. The first product overwrites the tile.
class TensorAccumulator {
 public:
  // Allocates columns of tensor memory. Their number is n rounded up to a power of two, but at least 32. All
  // threads of the CTA synchronize, so barriers that were initialised earlier become visible to them. Throws
  // Error inside a role. Kernel::finish() throws Error if free() was not called.
  TensorAccumulator(Kernel& kernel, int n, Where where = Where::here());

  int m() const { return 128; }
  int n() const { return n_; }
  tmem address() const { return address_; }

  // Synchronizes all threads of the CTA, and frees the columns. No code may access the columns afterwards.
  void free(Where where = Where::here());

 private:
  friend void mma(TensorAccumulator&, const TileView&, const TileView&, Where);

  int n_;
  uint32_t columns_;
  tmem address_;
  Var<pred> accumulate_;
  std::shared_ptr<bool> freed_;
};

// Computes D += A B by issuing the tcgen05.mma instructions for tiles of f16 or bf16, one for every 16
// elements along k. One thread must make all calls. The products run asynchronously until tcgen05_commit()
// signals that they are complete. The rows of a view run along m (or n), and its columns along k; the rows of
// a transposed view run along k. If shapes, types or swizzles do not fit, throws an Error that names them.
void mma(TensorAccumulator& d, const TileView& a, const TileView& b, Where where = Where::here());

// Arrives once at a barrier of this CTA when all products that the calling thread has issued are complete.
// The stages that the products read are then free, and the sums may be loaded.
void tcgen05_commit(smem barrier, Where where = Where::here());

// Loads `cols` columns, a power of two up to 128, beginning at column `first_col`. Thread i receives row i.
// All threads of one warpgroup must call this after they have waited for the barrier passed to
// tcgen05_commit().
RegisterTile<f32> load(const TensorAccumulator& from, int first_col, int cols, Where where = Where::here());

}  // namespace ptxbuilder
