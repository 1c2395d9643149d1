// Accesses operands of wgmma and tcgen05.mma in shared memory.
#pragma once

#include "runtime/emulator/instructions/descriptor.h"
#include "runtime/emulator/instructions/handlers.h"

namespace ptxbuilder::runtime::emulator {

// Calls f(mn, k, shared address) for each 16 bytes of a matrix. The matrix has `rows` rows along M or N,
// starting at `first`, and bytes_k bytes along K, or bytes_k / 2 elements if it is MN-major.
template <class F>
void for_each_unit(const MatrixDescriptor& d, bool mn_major, uint32_t first, uint32_t rows, uint32_t bytes_k,
                   F f) {
  if (mn_major) {
    for (uint32_t mn = first; mn < first + rows; mn += 8)
      for (uint32_t k = 0; k < bytes_k / 2; ++k) f(mn, k, d.mn_major(mn, k));
  } else {
    for (uint32_t mn = first; mn < first + rows; ++mn)
      for (uint32_t k = 0; k < bytes_k; k += 16) f(mn, k, d.k_major(mn, k));
  }
}

// Reports a nonzero base offset in the descriptor of `what`, which the emulator does not support.
void check_descriptor(Warp& w, const MatrixDescriptor& d, const char* what);

// Records the reads of one operand, and reports reads outside shared memory.
void touch_matrix(Warp& w, const MatrixDescriptor& d, bool mn_major, uint32_t first, uint32_t rows,
                  uint32_t bytes_k, Access deed, const char* what);

template <class T, class Read>
void read_matrix(const Cta& cta, const MatrixDescriptor& d, bool mn_major, uint32_t first, uint32_t rows,
                 int size, bool by_k, T* out, int k_count, Read read) {
  const auto bytes_k = static_cast<uint32_t>(k_count * size);
  for_each_unit(d, mn_major, first, rows, bytes_k, [&](uint32_t mn, uint32_t k, uint32_t address) {
    const std::byte* unit = cta.shared.data() + address;
    for (int e = 0; e < 16 / size; ++e) {
      const uint32_t row = mn - first + (mn_major ? static_cast<uint32_t>(e) : 0);
      const uint32_t column = mn_major ? k : k / static_cast<uint32_t>(size) + static_cast<uint32_t>(e);
      out[by_k ? column * rows + row : row * static_cast<uint32_t>(k_count) + column] = read(unit + e * size);
    }
  });
}

}  // namespace ptxbuilder::runtime::emulator
