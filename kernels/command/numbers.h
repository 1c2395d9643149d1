// Host copies of device numbers: the bits of each element type, and doubles.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "ptxbuilder/dtype.h"
#include "ptxbuilder/error.h"

namespace ptxbuilder::command {

// Rounds to nearest even. Types f16, bf16, f32 and the integers.
inline uint32_t encode(DType type, double value) {
  switch (type) {
    case DType::f16:
      return std::bit_cast<uint16_t>(static_cast<_Float16>(value));
    case DType::bf16: {
      // Through f32, which cannot round twice wrongly for values that were drawn as f32.
      uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(value));
      if (std::isnan(value)) return 0x7fff;
      return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    }
    case DType::f32:
      return std::bit_cast<uint32_t>(static_cast<float>(value));
    case DType::u32:
      return static_cast<uint32_t>(value);
    default:
      throw Error("encode: a type that no kernel's data has");
  }
}

inline double decode(DType type, uint32_t bits) {
  switch (type) {
    case DType::f16:
      return static_cast<double>(std::bit_cast<_Float16>(static_cast<uint16_t>(bits)));
    case DType::bf16:
      return std::bit_cast<float>(bits << 16);
    case DType::f32:
      return std::bit_cast<float>(bits);
    case DType::u32:
      return bits;
    default:
      throw Error("decode: a type that no kernel's data has");
  }
}

// Half the distance between neighbours, relative to a value: the error of one rounding to nearest.
inline double unit_roundoff(DType type) {
  switch (type) {
    case DType::f16:
      return 0x1p-11;
    case DType::bf16:
      return 0x1p-8;
    case DType::f32:
      return 0x1p-24;
    default:
      return 0;
  }
}

}  // namespace ptxbuilder::command
