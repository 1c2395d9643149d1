// A tensor map that makes TMA stop at the end of a group of rows.
#pragma once

#include <algorithm>
#include <limits>

#include "ptxbuilder/ir/value.h"
#include "runtime/argument.h"

namespace ptxbuilder::kernels {

// TMA cuts off boxes at the end of a tensor, but not at the end of a group. To cut off at `end`, the tensor
// map has three dimensions for rows (as in Triton's ragged tensors). The first two have the stride of a row.
// The stride of the third is so large that kRowsEnd steps along it wrap around 64 bits and move back by
// kRowsEnd rows. The first coordinate is row_up_to(row, end), so rows at `end` and above are outside the
// first dimension, whose extent is kRowsEnd. The other two coordinates compensate for the shift, so that
// earlier rows keep their addresses. A map that began kRowsEnd rows before the tensor would save one
// dimension, but an H100 faults on a map whose address points to no memory.
inline constexpr uint32_t kRowsEnd = 1 << 30;  // maximum number of rows
inline u32 row_up_to(u32 row, u32 end) { return row + (u32(kRowsEnd) - end); }

// Returns the tensor with three dimensions for the rows of a matrix, as described above. `stride` is in
// elements.
inline runtime::Argument ragged_rows(runtime::View memory, DType type, int64_t columns, int64_t stride) {
  const auto bytes = static_cast<uint64_t>(size_of(type)), row = static_cast<uint64_t>(stride) * bytes;
  const uint64_t back = (uint64_t{1} << 34) * bytes - row;
  // The coordinates can reach addresses outside the matrix, so the size of its memory is not checked.
  return runtime::tensor({memory.address, std::numeric_limits<size_t>::max()}, type,
                         {static_cast<uint64_t>(columns), kRowsEnd, kRowsEnd + 1, kRowsEnd + 1},
                         {row, row, back});
}

}  // namespace ptxbuilder::kernels
