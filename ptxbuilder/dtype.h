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

// Returns the PTX spelling of a type, such as "bf16", "e4m3" or "u32". Sidecars and command lines use the
// same spelling.
constexpr std::string_view name(DType type) {
  constexpr std::array<std::string_view, 15> names = {"u8",   "s8",   "u16",  "s16", "u32",
                                                      "s32",  "u64",  "s64",  "f16", "bf16",
                                                      "tf32", "e4m3", "e5m2", "f32", "f64"};
  return names[static_cast<size_t>(type)];
}

// Sizes in bytes, indexed by DType. The array is defined outside size_of() because each call would otherwise
// put it on the stack.
inline constexpr std::array kElementBytes = {1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 1, 1, 4, 8};

// Returns the size of one element in bytes: 1, 2, 4 or 8. tf32 is stored in 4 bytes.
constexpr int size_of(DType type) { return kElementBytes[static_cast<size_t>(type)]; }

// Returns the type with this PTX spelling, or nullopt if there is none.
std::optional<DType> dtype_from_name(std::string_view text);

// Return the kind of a type. Every type is either a floating-point type or an integer type.
constexpr bool is_float(DType type) { return type >= DType::f16; }
constexpr bool is_integer(DType type) { return !is_float(type); }
constexpr bool is_signed(DType type) {
  return type == DType::s8 || type == DType::s16 || type == DType::s32 || type == DType::s64;
}
constexpr bool is_fp8(DType type) { return type == DType::e4m3 || type == DType::e5m2; }
constexpr bool is_int8(DType type) { return type == DType::s8 || type == DType::u8; }
constexpr bool is_half(DType type) { return type == DType::f16 || type == DType::bf16; }

// Returns the bits of the number of `type` that is nearest to `value`, with ties to even. In f16, bf16, tf32
// and f32, a value out of range becomes infinity. In e4m3, e5m2 and integers, it becomes the nearest number
// of the type, as with cvt.rn, cvt.rn.satfinite and cvt.rni.sat in PTX. A NaN becomes PTX's canonical NaN, or
// 0 if `type` is an integer type. The low 13 bits of a tf32 are zero.
uint64_t encode(DType type, double value);

// Returns the value that these bits represent. The result is exact except for 64-bit integers beyond 2^53.
// The low 13 bits of a tf32 are ignored, as in the tensor cores.
double decode(DType type, uint64_t bits);

// Writes `value` to the size_of(type) bytes at `to`. Floats are rounded with encode(). For integers, the low
// bits of the integral part are written.
void write_element(std::byte* to, DType type, double value);
// Returns the value of the element at `from`, converted with decode().
double read_element(const std::byte* from, DType type);

// Returns the greatest finite number of the type.
double greatest(DType type);

// Returns the greatest relative error of one rounding to nearest, which is half the relative distance between
// neighbouring numbers. Returns 0 for integers.
double unit_roundoff(DType type);

}  // namespace ptxbuilder
