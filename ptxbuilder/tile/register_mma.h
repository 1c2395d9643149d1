// Register tiles from and to the operands of matrix products: accumulators, and A in registers.
#pragma once

#include "ptxbuilder/tile/mma.h"
#include "ptxbuilder/tile/register_tile.h"

namespace ptxbuilder {

namespace detail {
TileValues load_accumulator(const Accumulator& from, DType dtype, Where where);
void store_accumulator(Accumulator& to, const TileValues& x, Where where);
Fragment fragment_of(const TileValues& x, Where where);
TileValues load_fragment(const Fragment& from, DType dtype, Where where);
}  // namespace detail

// An accumulator's elements, in wgmma_layout(m, n); T is its type: f32, f16 or s32. Throws Error while an mma
// may still write them: wgmma_wait(0) first.
template <TileElement T>
RegisterTile<T> load(const Accumulator& from, Where where = Where::here()) {
  return RegisterTile<T>(detail::load_accumulator(from, T::dtype, where));
}

// The reverse, to which the next mma adds. Throws Error in flight too, and for another layout.
template <TileElement T>
void store(Accumulator& to, const RegisterTile<T>& x, Where where = Where::here()) {
  detail::store_accumulator(to, x.values(), where);
}

// A of a product, from the layout that its type needs: wgmma_layout(64, k) for f16 and bf16, wgmma_8bit(k)
// for e4m3, e5m2, s8 and u8, wgmma_32bit(k) for tf32. Throws Error for another.
template <TileElement T>
Fragment to_fragment(const RegisterTile<T>& x, Where where = Where::here()) {
  return detail::fragment_of(x.values(), where);
}
template <TileElement T>
RegisterTile<T> load(const Fragment& from, Where where = Where::here()) {
  return RegisterTile<T>(detail::load_fragment(from, T::dtype, where));
}

}  // namespace ptxbuilder
