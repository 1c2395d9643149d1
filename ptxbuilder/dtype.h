// Defines the element types of tensors, parameters and matrix instructions: their PTX names, sizes and kinds,
// and conversions to and from numbers on the host.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ptxbuilder {

// The element types of tensors and tiles, integers first.
enum class DType : uint8_t { u8, s8, u16, s16, u32, s32, u64, s64, f16, bf16, tf32, e4m3, e5m2, f32, f64 };

// Returns the PTX spelling, which sidecars and command lines use too: "bf16", "e4m3", "u32".
constexpr std::string_view name(DType type) {
  constexpr std::array<std::string_view, 15> names = {"u8",   "s8",   "u16",  "s16", "u32",
                                                      "s32",  "u64",  "s64",  "f16", "bf16",
                                                      "tf32", "e4m3", "e5m2", "f32", "f64"};
  return names[static_cast<size_t>(type)];
}

// Sizes in bytes, indexed by DType. The array is defined outside size_of(), where each call would put it on
// the stack.
inline constexpr std::array kElementBytes = {1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 1, 1, 4, 8};

// Returns the bytes of one element: 1, 2, 4 or 8. tf32 is stored in 4 bytes.
constexpr int size_of(DType type) { return kElementBytes[static_cast<size_t>(type)]; }

// Returns the type with this PTX spelling, or nothing if there is none.
std::optional<DType> dtype_from_name(std::string_view text);

// Every type is either a floating-point type or an integer type.
constexpr bool is_float(DType type) { return type >= DType::f16; }
constexpr bool is_integer(DType type) { return !is_float(type); }
constexpr bool is_signed(DType type) {  // the signed integers
  return type == DType::s8 || type == DType::s16 || type == DType::s32 || type == DType::s64;
}
constexpr bool is_fp8(DType type) { return type == DType::e4m3 || type == DType::e5m2; }
constexpr bool is_int8(DType type) { return type == DType::s8 || type == DType::u8; }
constexpr bool is_half(DType type) { return type == DType::f16 || type == DType::bf16; }  // the 16-bit floats

// Returns the bits of the number of `type` that is nearest to `value`, with ties to even. A value out of
// range becomes infinity in f16, bf16, tf32 and f32, and the greatest number of the type in e4m3, e5m2 and
// the integers, as with PTX's cvt.rn, cvt.rn.satfinite and cvt.rni.sat; a NaN becomes PTX's canonical NaN, or
// 0 in an integer. The low 13 bits of a tf32 are zero.
uint64_t encode(DType type, double value);

// Returns the value that these bits represent, which is exact except for 64-bit integers beyond 2^53. The low
// 13 bits of a tf32 are ignored, as in the tensor core.
double decode(DType type, uint64_t bits);

// Writes `value` to the size_of(type) bytes at `to`: encode() rounds floats; integers take the low bits of
// the integral part.
void write_element(std::byte* to, DType type, double value);
// Returns the value of the element at `from`, as decode() does.
double read_element(const std::byte* from, DType type);

// Returns the greatest finite number of the type.
double greatest(DType type);

// Returns half the distance between neighbouring numbers, relative to their value, which is the error of one
// rounding to nearest; 0 for integers.
double unit_roundoff(DType type);

}  // namespace ptxbuilder
