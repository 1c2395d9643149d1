// A of a product in registers: 64 rows as wgmma wants them.
#pragma once

#include "ptxbuilder/tile/descriptor.h"
#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder {

// 64 x k elements of one warpgroup, four b32 registers a thread for each 32 bytes along k. Register 2 c + h
// of such a step holds 4 bytes of row 16 (warp % 4) + lane / 4 + 8 h, from byte 16 c + 4 (lane % 4) on (PTX
// ISA, wgmma.mma_async, "Register Fragments"). The values are fixed where the fragment is made, so that
// nothing is computed between a wgmma.fence and the wgmmas that read them.
class Fragment {
 public:
  // `registers` in that order. Throws Error when they are no multiple of four, or the type is none of f16,
  // bf16, tf32, e4m3, e5m2, s8, u8.
  Fragment(DType dtype, const std::vector<u32>& registers, Where where = Where::here());

  DType dtype() const { return dtype_; }
  int k() const;
  int steps() const { return static_cast<int>(registers_.size()) / 4; }
  std::vector<Value> step(int i) const;  // its four registers

  std::string describe() const;  // "a bf16 64x32 fragment"

 private:
  DType dtype_;
  std::vector<Value> registers_;
};

// 64 rows of a tile by ldmatrix: a view of 64 rows whose columns are k, or a transposed view of 64 columns
// whose rows are k, of 16-bit elements. Call after the tile's bytes have arrived; the tile may be overwritten
// when the fragment has been used.
Fragment load_fragment(const TileView& from, Where where = Where::here());

// From f32 values in an accumulator's order (see Accumulator::registers): f16, bf16, e4m3 or e5m2, to nearest
// even. 8-bit types exchange values within groups of four lanes and clamp.
Fragment to_fragment(DType type, const std::vector<f32>& values, Where where = Where::here());

namespace detail {
// The same from any source: `element` yields element i of `count`, a value or a named register, of f32 or
// s32.
Fragment packed_fragment(DType type, DType from, int count, const std::function<Argument(int)>& element,
                         Where where);

// A view as wgmma reads it. Throws Error that begins with `what`, as "mma: A".
WgmmaOperand operand_of(const TileView& view, std::string_view what, Where where);
}  // namespace detail

}  // namespace ptxbuilder
