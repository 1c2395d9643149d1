// Number formats and rounding modes of PTX that C++ lacks: f16, bf16, tf32, e4m3 and e5m2.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace ptxbuilder::runtime::emulator {

// The rounding modes of the PTX ISA, "Rounding Modifiers". `rna` rounds to nearest, with ties away from zero.
enum class Rounding : uint8_t { rn, rz, rm, rp, rna };

// A binary floating-point format of at most 32 bits.
struct Format {
  int exponent_bits, mantissa_bits;
  bool has_infinity;  // false for e4m3, in which all ones is NaN and the codes below are numbers

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
};

inline constexpr Format f16_format{5, 10, true}, bf16_format{8, 7, true}, tf32_format{8, 10, true},
    e4m3_format{4, 3, false}, e5m2_format{5, 2, true}, f32_format{8, 23, true};

// Returns the code of `value` in `format`, in the low bits. If `saturate` is true (.satfinite), a value
// beyond the largest number becomes that number. NaN becomes the format's NaN (PTX ISA, cvt: 0x7fff for f16
// and bf16, 0x7f for e4m3 and e5m2).
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
  // Multiplication by 2^112 adjusts the exponent and makes subnormal numbers normal, without rounding.
  float value = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
}

inline uint16_t to_f16(float value) { return static_cast<uint16_t>(encode(value, f16_format)); }

// The NaN that tensor copies write for elements outside the tensor. If a factor is this NaN, fma.oob returns
// +0 (PTX ISA, "Tensors" and "fma"). The manual does not specify its bits. On an H100, f16 and bf16
// instructions were found to treat these bits, with either sign, as this NaN, but only in a factor. Whether
// wider elements repeat these bits has not been tested.
inline constexpr uint16_t nan_out_of_bounds = 0x7ff7;

// Returns the value that the tensor core reads from a 32-bit register that holds a tf32 number: the low 13
// bits are ignored (PTX ISA, "Alternate Floating-Point Data Formats").
inline float from_tf32(uint32_t bits) { return std::bit_cast<float>(bits & 0xffffe000u); }

}  // namespace ptxbuilder::runtime::emulator
