// Rows that TMA cuts off where their group ends.
#pragma once

#include <algorithm>
#include <limits>

#include "ptxbuilder/ir/value.h"
#include "runtime/argument.h"

namespace ptxbuilder::kernels {

// TMA stops at the last of a tensor's rows, not at a group's. So the tensor map of rows that must end with
// their group has these rows in three dimensions (like Triton's ragged tensors): at the coordinates of the
// first two of these are a row's stride, and that of the last is so large that kRowsEnd steps along it go
// kRowsEnd rows back, in 64 bits. Rows from `end` on are outside of the first dimension, whose extent is
// kRowsEnd, and earlier rows keep their addresses. A map that begins that many rows before the tensor would
// save one dimension, but an H100 stops at a map that begins where there is no memory.
inline constexpr uint32_t kRowsEnd = 1 << 30;  // the most rows
inline u32 row_up_to(u32 row, u32 end) { return row + (u32(kRowsEnd) - end); }

// Returns a matrix as such a tensor; strides are in elements.
inline runtime::Argument ragged_rows(runtime::View memory, DType type, int64_t columns, int64_t stride) {
  const auto bytes = static_cast<uint64_t>(size_of(type)), row = static_cast<uint64_t>(stride) * bytes;
  const uint64_t back = (uint64_t{1} << 34) * bytes - row;
  // The coordinates extend beyond these rows, to addresses at which the matrix has no memory.
  return runtime::tensor({memory.address, std::numeric_limits<size_t>::max()}, type,
                         {static_cast<uint64_t>(columns), kRowsEnd, kRowsEnd + 1, kRowsEnd + 1},
                         {row, row, back});
}

}  // namespace ptxbuilder::kernels
