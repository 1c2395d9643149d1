#include "ptxbuilder/product/epilogue.h"

#include <fmt/format.h>

namespace ptxbuilder {
namespace {

RegisterTile<f32> every_second_column(const RegisterTile<f32>& x, int first) {
  if (x.rows() != 64 || x.cols() % 16 != 0 || !(x.layout() == wgmma_layout(x.rows(), x.cols())))
    throw Error(
        fmt::format("pairs of columns: the layout of the tile is {}, but must be wgmma_layout(64, n) with n "
                    "a multiple of 16",
                    x.layout().describe()));
  return RegisterTile<f32>::of(wgmma_32bit(x.cols() / 2), [&](int i) { return x.value(2 * i + first); });
}

}  // namespace

RegisterTile<f32> even_columns(const RegisterTile<f32>& x, Where where) {
  AtLine line(where);
  return every_second_column(x, 0);
}
RegisterTile<f32> odd_columns(const RegisterTile<f32>& x, Where where) {
  AtLine line(where);
  return every_second_column(x, 1);
}

RegisterTile<f32> amax(const RegisterTile<f32>& x, gptr<f32> greatest, const Index& rows, const Index& cols,
                       const PanelPlace& at, Where where) {
  AtLine line(where);
  const u32 below = at.transposed ? cols.value() : rows.value();
  const u32 before = at.transposed ? rows.value() : cols.value();
  const RegisterTile<pred> inside =
      (row_index(x.layout()) + at.row < below) & (col_index(x.layout()) + at.col < before);
  const RegisterTile<f32> magnitudes = select(inside, abs(x), 0);
  // Nonnegative floats are ordered like their bits, and NaNs are above all numbers. Compared as signed
  // integers, nonnegative floats are above any negative float, so a search for the maximum may start from a
  // negative float.
  s32 most = 0;
  for (int i = 0; i < x.count(); ++i) most = max(most, bit_cast<s32>(magnitudes.value(i)));
  most = redux_sync_max_s32(most);
  red_relaxed_gpu_global_max_s32.when(laneid() == 0)(gmem(greatest), most);
  return x;
}

}  // namespace ptxbuilder
