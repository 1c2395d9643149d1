// Decodes wgmma's descriptors of matrices in shared memory (PTX ISA, "Matrix Descriptor Format").
#pragma once

#include <cstdint>

#include "runtime/emulator/instructions/tensor_map_contents.h"

namespace ptxbuilder::runtime::emulator {

//  63 62     51 49     45 32      29 16      13 0
//  swizzle   base      SBO >> 4   LBO >> 4   start >> 4
struct MatrixDescriptor {
  uint32_t start, leading, stride;  // bytes
  uint32_t base_offset;
  Swizzle swizzle;

  explicit MatrixDescriptor(uint64_t bits)
      : start(static_cast<uint32_t>(bits & 0x3fff) << 4),
        leading(static_cast<uint32_t>(bits >> 16 & 0x3fff) << 4),
        stride(static_cast<uint32_t>(bits >> 32 & 0x3fff) << 4),
        base_offset(static_cast<uint32_t>(bits >> 49 & 7)) {
    constexpr Swizzle kinds[] = {Swizzle::none, Swizzle::b128, Swizzle::b64, Swizzle::b32};
    swizzle = kinds[bits >> 62];
  }

  // Returns the shared address of the 16-byte unit that contains byte `k` of row `mn` in a K-major matrix.
  uint32_t k_major(uint32_t mn, uint32_t k) const {
    const uint32_t span = static_cast<uint32_t>(span_bytes(swizzle));
    const uint32_t linear = swizzle == Swizzle::none
                                ? start + mn / 8 * stride + k / 16 * leading + mn % 8 * 16
                                : start + mn / 8 * stride + mn % 8 * span + k / 16 * 16;
    return swizzled(linear, swizzle);
  }

  // Returns the shared address of the 16 bytes that hold elements mn to mn + 7 of column k in an MN-major
  // matrix with 16-bit elements. `mn` must be a multiple of 8. Without a swizzle, the roles of the two
  // offsets are exchanged.
  uint32_t mn_major(uint32_t mn, uint32_t k) const {
    if (swizzle == Swizzle::none) return start + mn / 8 * stride + k / 8 * leading + k % 8 * 16;
    const uint32_t span = static_cast<uint32_t>(span_bytes(swizzle)), elements = span / 2;
    return swizzled(start + mn / elements * leading + k / 8 * stride + k % 8 * span + mn % elements * 2,
                    swizzle);
  }
};

}  // namespace ptxbuilder::runtime::emulator
