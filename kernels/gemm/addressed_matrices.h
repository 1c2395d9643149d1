// Describes matrices of the same shape and stride, at arbitrary addresses, as one tensor.
#pragma once

#include <array>
#include <limits>
#include <vector>

#include "ptxbuilder/ir/value.h"
#include "runtime/argument.h"

namespace ptxbuilder::kernels {

// TMA computes addresses modulo 2^64, so two additional dimensions let the tensor map of one matrix reach all
// the others. The first counts steps of 16 bytes, since all matrices begin at multiples of 16 bytes; the
// second counts leaps of 2^31 steps. To reach a matrix at a lower address than the map's, the number of leaps
// is large enough for the address to wrap around 64 bits. The map's own address must point to existing
// memory, since an H100 faults otherwise (see ragged_rows.h).
inline constexpr uint32_t kMatrixStep = 16;
inline constexpr uint32_t kStepBits = 31;
inline constexpr uint64_t kMatrixLeap = uint64_t{kMatrixStep} << kStepBits;
inline constexpr uint32_t kMatrixLeaps = uint32_t{1} << 29;  // 2^64 bytes in total

// Returns the two coordinates that select the matrix at `address` in the map of the matrix at `start`. They
// follow the coordinates of an element.
inline std::array<u32, 2> matrix_at(u64 address, u64 start) {
  const u64 steps = (address - start) / kMatrixStep;
  return {u32(steps) & ((uint32_t{1} << kStepBits) - 1), u32(steps >> kStepBits)};
}

// Returns the tensor for a map that reaches all addresses from the matrix in `memory`. `stride` is in
// elements. TMA reads zeros if the last coordinate is kMatrixLeaps.
inline runtime::Argument addressed_matrices(runtime::View memory, DType type, int64_t columns, int64_t rows,
                                            int64_t stride) {
  // The tensor covers all addresses, and matrices at neighboring steps overlap.
  return runtime::overlapping(runtime::tensor(
      {memory.address, std::numeric_limits<size_t>::max()}, type,
      {static_cast<uint64_t>(columns), static_cast<uint64_t>(rows), uint64_t{1} << kStepBits, kMatrixLeaps},
      {static_cast<uint64_t>(stride) * static_cast<uint64_t>(size_of(type)), kMatrixStep, kMatrixLeap}));
}

}  // namespace ptxbuilder::kernels
