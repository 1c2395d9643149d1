// Matrices of one shape and stride that are anywhere in memory, as one tensor.
#pragma once

#include <array>
#include <limits>
#include <vector>

#include "ptxbuilder/ir/value.h"
#include "runtime/argument.h"

namespace ptxbuilder::kernels {

// TMA adds up the products of coordinates and strides in 64 bits. So the tensor map of one matrix reaches the
// others through two more dimensions: steps of 16 bytes, at which all matrices begin, and after 2^31 of these
// steps the next leap. A matrix that begins before the map's does is as many leaps ahead as lead around all
// 64 bits. The map begins where there is memory, without which an H100 stops (see ragged_rows.h).
inline constexpr uint32_t kMatrixStep = 16;
inline constexpr uint32_t kStepBits = 31;
inline constexpr uint64_t kMatrixLeap = uint64_t{kMatrixStep} << kStepBits;
inline constexpr uint32_t kMatrixLeaps = uint32_t{1} << 29;  // 2^64 bytes; TMA reads zeros at this coordinate

// Returns the coordinates after those of an element: those of the matrix that begins at `address`, in the map
// of the one that begins at `start`.
inline std::array<u32, 2> matrix_at(u64 address, u64 start) {
  const u64 steps = (address - start) / kMatrixStep;
  return {u32(steps) & ((uint32_t{1} << kStepBits) - 1), u32(steps >> kStepBits)};
}

// Returns the matrix as such a tensor; the stride is in elements.
inline runtime::Argument addressed_matrices(runtime::View memory, DType type, int64_t columns, int64_t rows,
                                            int64_t stride) {
  // The coordinates reach all addresses, and matrices at neighbouring steps overlap.
  return runtime::overlapping(runtime::tensor(
      {memory.address, std::numeric_limits<size_t>::max()}, type,
      {static_cast<uint64_t>(columns), static_cast<uint64_t>(rows), uint64_t{1} << kStepBits, kMatrixLeaps},
      {static_cast<uint64_t>(stride) * static_cast<uint64_t>(size_of(type)), kMatrixStep, kMatrixLeap}));
}

}  // namespace ptxbuilder::kernels
