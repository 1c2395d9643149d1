// Host copies of device numbers: the bits of each element type, and doubles.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "ptxbuilder/dtype.h"
#include "ptxbuilder/error.h"

namespace ptxbuilder::command {

// A floating type of 8 bits: its widths, and its greatest value (OCP 8-bit Floating Point Specification).
struct SmallFloat {
  int exponent_bits, mantissa_bits;
  double greatest;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
};
inline SmallFloat small_float(DType type) {
  return type == DType::e4m3 ? SmallFloat{4, 3, 448} : SmallFloat{5, 2, 57344};
}

// To nearest even; what exceeds the type becomes its greatest value.
inline uint32_t encode(const SmallFloat& f, double value) {
  const double size = std::min(std::abs(value), f.greatest);
  const int exponent = size == 0 ? 1 - f.bias() : std::max(std::ilogb(size), 1 - f.bias());
  // In units of the last place; a carry into the next binade is one into the exponent's bits too.
  const double units = std::nearbyint(std::ldexp(size, f.mantissa_bits - exponent));
  const int bits = ((exponent + f.bias() - 1) << f.mantissa_bits) + static_cast<int>(units);
  return static_cast<uint32_t>(bits) | (std::signbit(value) ? 0x80u : 0u);
}

inline double decode(const SmallFloat& f, uint32_t bits) {
  const int exponent = static_cast<int>(bits & 0x7f) >> f.mantissa_bits;
  int mantissa = static_cast<int>(bits) & ((1 << f.mantissa_bits) - 1);
  if (exponent > 0) mantissa += 1 << f.mantissa_bits;
  const double size = std::ldexp(mantissa, std::max(exponent, 1) - f.bias() - f.mantissa_bits);
  return bits & 0x80 ? -size : size;
}

// Rounds to nearest even; integers to the nearest that the type has. tf32 keeps what its 10 bits hold.
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
    case DType::tf32: {
      uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(value));
      return (bits + 0xfff + ((bits >> 13) & 1)) & ~0x1fffu;
    }
    case DType::e4m3:
    case DType::e5m2:
      return encode(small_float(type), value);
    case DType::s8:
      return static_cast<uint8_t>(static_cast<int>(std::clamp(std::nearbyint(value), -128.0, 127.0)));
    case DType::u8:
      return static_cast<uint8_t>(static_cast<int>(std::clamp(std::nearbyint(value), 0.0, 255.0)));
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
    case DType::tf32:
      return std::bit_cast<float>(bits);
    case DType::u32:
      return bits;
    case DType::s32:
      return static_cast<int32_t>(bits);
    case DType::e4m3:
    case DType::e5m2:
      return decode(small_float(type), bits);
    case DType::s8:
      return static_cast<int8_t>(bits);
    case DType::u8:
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
