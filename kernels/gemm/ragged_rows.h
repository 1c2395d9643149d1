// A tensor map whose rows end where their group ends.
#pragma once

#include <algorithm>
#include <limits>

#include "ptxbuilder/ir/value.h"
#include "runtime/argument.h"

namespace ptxbuilder::kernels {

// TMA stops at the last row of a tensor, not of a group. So the tensor map of rows that must end with their
// group has three dimensions for these rows (like Triton's ragged tensors). The stride of the first two is a
// row's stride; that of the third is so large that kRowsEnd steps along it wrap around 64 bits and go
// kRowsEnd rows back. Rows from `end` onwards are outside the first dimension, whose extent is kRowsEnd, and
// earlier rows keep their addresses. A map that began kRowsEnd rows before the tensor would save one
// dimension, but an H100 stops at a map that begins at an address without memory.
inline constexpr uint32_t kRowsEnd = 1 << 30;  // the greatest number of rows
inline u32 row_up_to(u32 row, u32 end) { return row + (u32(kRowsEnd) - end); }

// Returns the tensor that such a map describes, for a matrix; strides are in elements.
inline runtime::Argument ragged_rows(runtime::View memory, DType type, int64_t columns, int64_t stride) {
  const auto bytes = static_cast<uint64_t>(size_of(type)), row = static_cast<uint64_t>(stride) * bytes;
  const uint64_t back = (uint64_t{1} << 34) * bytes - row;
  // The coordinates extend beyond the matrix, to addresses where it has no memory.
  return runtime::tensor({memory.address, std::numeric_limits<size_t>::max()}, type,
                         {static_cast<uint64_t>(columns), kRowsEnd, kRowsEnd + 1, kRowsEnd + 1},
                         {row, row, back});
}

}  // namespace ptxbuilder::kernels
