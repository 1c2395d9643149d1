// Matrix products on the tensor cores: accumulators in named registers, descriptors derived from tiles.
#pragma once

#include "ptxbuilder/tile/copy.h"

namespace ptxbuilder {

// The fixed bits of a wgmma shared-memory descriptor (PTX ISA, "Matrix Descriptor Format"), to which the
// address is added:   63..62 swizzle | 45..32 stride byte offset >> 4 | 29..16 leading byte offset >> 4
// | 13..0 address >> 4
uint64_t descriptor_bits(Swizzle swizzle, uint32_t leading_bytes, uint32_t stride_bytes);

// m x n accumulators of one warpgroup, 64 n / 128 registers a thread for each 64 rows. Starts as zero: the
// first mma overwrites. m is a multiple of 64, n of 8 up to 256. The registers are named PTX registers that
// LLVM never sees.
class Accumulator {
 public:
  Accumulator(int m, int n, Where where = Where::here());

  int m() const { return m_; }
  int n() const { return n_; }

  // The next mma overwrites again.
  void zero() { accumulate_ = pred(false); }

  // Named registers of the 64-row block `block`, in wgmma's order: register 4 j + 2 h + e of a thread holds
  // row 16 (warp % 4) + lane / 4 + 8 h, column 8 j + 2 (lane % 4) + e (PTX ISA, wgmma.mma_async, "Register
  // Fragments"). Throws Error while an mma may still write them: wgmma_wait(0) first.
  Registers registers(int block, Where where = Where::here()) const;

  // One of them as a value.
  f32 value(int block, int i, Where where = Where::here()) const;

 private:
  friend void mma(Accumulator& d, const TileView& a, const TileView& b, Where where);

  int m_, n_;
  Registers registers_;
  Var<pred> accumulate_;
  std::shared_ptr<bool> in_flight_;
};

// D += A B: issues the wgmmas of a whole tile, k innermost. A view has rows along m (or n) and columns along
// k; a transposed view the reverse, which 16-bit types allow. f16 or bf16 elements. Call inside wgmma_group.
// Throws Error that names the shapes, types or swizzle that do not fit.
void mma(Accumulator& d, const TileView& a, const TileView& b, Where where = Where::here());

// Runs `body` between wgmma.fence and wgmma.commit_group: its mma calls are one group.
void wgmma_group(const std::function<void()>& body, Where where = Where::here());

// Waits until at most `pending` groups of the warpgroup are unfinished. After 0, accumulators may be read.
void wgmma_wait(int pending, Where where = Where::here());

// Converts the accumulators to T (f32, f16, bf16; to nearest even) and stores them to the box at row m,
// column n of a row-major tensor by TMA, through 2 buffers of 64 rows x 128 B for each warpgroup of the role.
// All threads of the warpgroup call it; what lies outside the tensor is dropped. The shared memory is free
// when it returns.
template <class T>
void store(TensorMap to, const Accumulator& from, u32 m, u32 n, Where where = Where::here());

}  // namespace ptxbuilder
