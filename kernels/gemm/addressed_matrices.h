// Matrices with the same shape and stride, at any addresses, as one tensor.
#pragma once

#include <array>
#include <limits>
#include <vector>

#include "ptxbuilder/ir/value.h"
#include "runtime/argument.h"

namespace ptxbuilder::kernels {

// TMA adds up the products of coordinates and strides in 64 bits, so the tensor map of one matrix can reach
// the others through two more dimensions. The first counts steps of 16 bytes, since all matrices begin at
// multiples of 16 bytes; the second counts leaps of 2^31 such steps. A matrix at a lower address than the
// map's is reached with enough leaps to wrap around all 64 bits. The map must begin at an address where there
// is memory, since otherwise an H100 stops (see ragged_rows.h).
inline constexpr uint32_t kMatrixStep = 16;
inline constexpr uint32_t kStepBits = 31;
inline constexpr uint64_t kMatrixLeap = uint64_t{kMatrixStep} << kStepBits;
inline constexpr uint32_t kMatrixLeaps = uint32_t{1} << 29;  // 2^64 bytes; at this coordinate, TMA reads
                                                             // zeros

// Returns the coordinates that follow those of an element: they select the matrix at `address`, in the map of
// the matrix at `start`.
inline std::array<u32, 2> matrix_at(u64 address, u64 start) {
  const u64 steps = (address - start) / kMatrixStep;
  return {u32(steps) & ((uint32_t{1} << kStepBits) - 1), u32(steps >> kStepBits)};
}

// Returns the tensor that such a map describes; the stride is in elements.
inline runtime::Argument addressed_matrices(runtime::View memory, DType type, int64_t columns, int64_t rows,
                                            int64_t stride) {
  // The coordinates reach all addresses, and matrices at neighbouring steps overlap.
  return runtime::overlapping(runtime::tensor(
      {memory.address, std::numeric_limits<size_t>::max()}, type,
      {static_cast<uint64_t>(columns), static_cast<uint64_t>(rows), uint64_t{1} << kStepBits, kMatrixLeaps},
      {static_cast<uint64_t>(stride) * static_cast<uint64_t>(size_of(type)), kMatrixStep, kMatrixLeap}));
}

}  // namespace ptxbuilder::kernels
