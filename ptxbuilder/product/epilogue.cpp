#include "ptxbuilder/product/epilogue.h"

namespace ptxbuilder {

RegisterTile<f32> amax(const RegisterTile<f32>& x, gptr<f32> greatest, const Index& rows, const Index& cols,
                       const PanelPlace& at, Where where) {
  AtLine line(where);
  const u32 below = at.transposed ? cols.value() : rows.value();
  const u32 before = at.transposed ? rows.value() : cols.value();
  const RegisterTile<pred> inside =
      (row_index(x.layout()) + at.row < below) & (col_index(x.layout()) + at.col < before);
  const RegisterTile<f32> magnitudes = select(inside, abs(x), 0);
  // Floats that are not negative are ordered as their bits are, and above them are the NaNs.
  u32 most = 0;
  for (int i = 0; i < x.count(); ++i) most = max(most, bit_cast<u32>(magnitudes.value(i)));
  most = redux_sync_max_u32(most);
  red_relaxed_gpu_global_max_u32.when(laneid() == 0)(gmem(greatest), most);
  return x;
}

}  // namespace ptxbuilder
