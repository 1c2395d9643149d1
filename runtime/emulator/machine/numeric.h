// Number formats and roundings of PTX that C++ lacks: f16, bf16, tf32, e4m3, e5m2.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace ptxbuilder::runtime::emulator {

// PTX ISA, "Rounding Modifiers". rna: to nearest, ties away from zero.
enum class Rounding : uint8_t { rn, rz, rm, rp, rna };

// A binary floating point format of at most 32 bits.
struct Format {
  int exponent_bits, mantissa_bits;
  bool has_infinity;  // e4m3 has none: all ones is NaN, the codes below it are numbers

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
};

inline constexpr Format f16_format{5, 10, true}, bf16_format{8, 7, true}, tf32_format{8, 10, true},
    e4m3_format{4, 3, false}, e5m2_format{5, 2, true}, f32_format{8, 23, true};

// The code of `value` in `format`, right-aligned. With `saturate`, what exceeds the largest number becomes
// that number
// (.satfinite); NaN becomes the format's NaN (PTX ISA, cvt: 0x7fff for f16 and bf16, 0x7f for e4m3 and e5m2).
uint32_t encode(double value, Format format, Rounding rounding = Rounding::rn, bool saturate = false);

// Returns the exact value of a code.
float decode(uint32_t code, Format format);

inline float from_bf16(uint16_t code) { return std::bit_cast<float>(static_cast<uint32_t>(code) << 16); }

inline uint16_t to_bf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

inline float from_f16(uint16_t code) {
  uint32_t sign = static_cast<uint32_t>(code & 0x8000) << 16, magnitude = code & 0x7fffu;
  if (magnitude >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000 | ((magnitude & 0x3ff) << 13));
  // Scaling by 2^112 moves the exponent and makes subnormals normal, exactly.
  float value = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
}

inline uint16_t to_f16(float value) { return static_cast<uint16_t>(encode(value, f16_format)); }

// PTX ISA, "Tensors" and "fma": tensor copies fill what is outside with a NaN that makes the result of
// fma.oob +0. The manual does not specify its bits. An H100 was measured to take these bits of either sign as
// this NaN, in f16 and in bf16, only in a factor. Whether wider elements repeat them was not measured.
inline constexpr uint16_t nan_out_of_bounds = 0x7ff7;

// The part of a 32-bit register with tf32 that the tensor core reads: the low 13 bits are ignored (PTX ISA,
// "Alternate Floating-Point Data Formats").
inline float from_tf32(uint32_t bits) { return std::bit_cast<float>(bits & 0xffffe000u); }

}  // namespace ptxbuilder::runtime::emulator
