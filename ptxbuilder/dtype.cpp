#include "ptxbuilder/dtype.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace ptxbuilder {
namespace {

// On ARM, g++ 12 provides half precision only under this name.
#if defined(__aarch64__) && !defined(__clang__) && __GNUC__ < 13
using Half = __fp16;
#else
using Half = _Float16;
#endif

// An 8-bit float (OCP 8-bit Floating Point Specification; PTX ISA, "Alternate Floating-Point Data Formats").
struct Fp8 {
  int exponent_bits, mantissa_bits;
  double greatest;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
};
Fp8 fp8(DType type) { return type == DType::e4m3 ? Fp8{4, 3, 448} : Fp8{5, 2, 57344}; }

uint64_t encode_fp8(const Fp8& f, double value) {
  if (std::isnan(value)) return 0x7f;
  const double size = std::min(std::abs(value), f.greatest);
  const int exponent = size == 0 ? 1 - f.bias() : std::max(std::ilogb(size), 1 - f.bias());
  // The rounded number is in units of the last place, so a carry into the next binade also increments the
  // exponent bits.
  const double units = std::nearbyint(std::ldexp(size, f.mantissa_bits - exponent));
  const int bits = ((exponent + f.bias() - 1) << f.mantissa_bits) + static_cast<int>(units);
  return static_cast<uint64_t>(bits) | (std::signbit(value) ? 0x80u : 0u);
}

double decode_fp8(const Fp8& f, uint64_t bits) {
  const int exponent = static_cast<int>(bits & 0x7f) >> f.mantissa_bits;
  int mantissa = static_cast<int>(bits) & ((1 << f.mantissa_bits) - 1);
  const bool top = exponent == (1 << f.exponent_bits) - 1;
  const double sign = bits & 0x80 ? -1 : 1;
  // e4m3 has a single NaN and no infinity. e5m2 has infinities and NaNs as in IEEE 754.
  if (top && f.mantissa_bits == 3 && mantissa == 7) return std::numeric_limits<double>::quiet_NaN();
  if (top && f.mantissa_bits == 2)
    return mantissa ? std::numeric_limits<double>::quiet_NaN()
                    : sign * std::numeric_limits<double>::infinity();
  if (exponent > 0) mantissa += 1 << f.mantissa_bits;
  return sign * std::ldexp(mantissa, std::max(exponent, 1) - f.bias() - f.mantissa_bits);
}

// Returns all numbers of a type, indexed by their bits. The table is computed once, because reference
// implementations decode elements very often.
const std::array<double, 256>& fp8_numbers(DType type) {
  const auto numbers_of = [](const Fp8& f) {
    std::array<double, 256> all;
    for (size_t bits = 0; bits < all.size(); ++bits) all[bits] = decode_fp8(f, bits);
    return all;
  };
  static const std::array of_all = {numbers_of(fp8(DType::e4m3)), numbers_of(fp8(DType::e5m2))};
  return of_all[type == DType::e5m2];
}

// Rounds `value` once, to an f32 whose lowest `dropped` bits are 0, and returns its bits. If rounding to f32
// turns `value` into a tie, the tie is rounded toward the side on which `value` was.
uint32_t shortened(double value, int dropped) {
  const auto wide = static_cast<float>(value);
  auto bits = std::bit_cast<uint32_t>(wide);
  if (std::isinf(wide)) return bits;
  const uint32_t low = (1u << dropped) - 1, tie = 1u << (dropped - 1);
  if (const double size = std::abs(static_cast<double>(wide)); (bits & low) == tie && size != std::abs(value))
    bits += std::abs(value) > size ? 1 : -1;
  return (bits + tie - 1 + (bits >> dropped & 1)) & ~low;
}

uint64_t encode_integer(DType type, double value) {
  if (std::isnan(value)) return 0;
  const int width = 8 * size_of(type) - (is_signed(type) ? 1 : 0);
  const double whole = std::nearbyint(value),
               end = std::ldexp(1.0, width);  // smallest value that is out of range
  const uint64_t most = ~uint64_t{0} >> (64 - width);
  if (whole >= end) return most;
  if (!is_signed(type)) return whole <= 0 ? 0 : static_cast<uint64_t>(whole);
  const auto least = ~most;  // bits of the lowest value: the sign bit and all bits above it
  const uint64_t bits = whole <= -end ? least : static_cast<uint64_t>(static_cast<int64_t>(whole));
  return bits & ~uint64_t{0} >> (64 - 8 * size_of(type));
}

}  // namespace

std::optional<DType> dtype_from_name(std::string_view text) {
  for (int i = 0; i <= static_cast<int>(DType::f64); ++i)
    if (const auto type = static_cast<DType>(i); name(type) == text) return type;
  return std::nullopt;
}

uint64_t encode(DType type, double value) {
  const bool nan = std::isnan(value);
  switch (type) {
    case DType::f16:
      return nan ? 0x7fff : std::bit_cast<uint16_t>(static_cast<Half>(value));
    case DType::bf16:
      return nan ? 0x7fff : shortened(value, 16) >> 16;
    case DType::tf32:
      return nan ? 0x7fffe000 : shortened(value, 13);
    case DType::f32:
      return nan ? 0x7fffffff : std::bit_cast<uint32_t>(static_cast<float>(value));
    case DType::f64:
      return std::bit_cast<uint64_t>(value);
    case DType::e4m3:
    case DType::e5m2:
      return encode_fp8(fp8(type), value);
    default:
      return encode_integer(type, value);
  }
}

double decode(DType type, uint64_t bits) {
  const auto word = static_cast<uint32_t>(bits);
  switch (type) {
    case DType::f16:
      return static_cast<double>(std::bit_cast<Half>(static_cast<uint16_t>(bits)));
    case DType::bf16:
      return static_cast<double>(std::bit_cast<float>(word << 16));
    case DType::tf32:
      return static_cast<double>(std::bit_cast<float>(word & ~0x1fffu));
    case DType::f32:
      return static_cast<double>(std::bit_cast<float>(word));
    case DType::f64:
      return std::bit_cast<double>(bits);
    case DType::e4m3:
    case DType::e5m2:
      return fp8_numbers(type)[bits & 0xff];
    default: {
      const int unused = 64 - 8 * size_of(type);
      return is_signed(type) ? static_cast<double>(static_cast<int64_t>(bits << unused) >> unused)
                             : static_cast<double>(bits << unused >> unused);
    }
  }
}

double greatest(DType type) {
  switch (type) {
    case DType::f16:
      return 65504;
    case DType::bf16:
      return 0x1.fep127;
    case DType::tf32:
      return 0x1.ffcp127;
    case DType::f32:
      return static_cast<double>(std::numeric_limits<float>::max());
    case DType::f64:
      return std::numeric_limits<double>::max();
    case DType::e4m3:
    case DType::e5m2:
      return fp8(type).greatest;
    default:
      return decode(type, encode_integer(type, std::numeric_limits<double>::infinity()));
  }
}

double unit_roundoff(DType type) {
  switch (type) {
    case DType::f16:
    case DType::tf32:
      return 0x1p-11;
    case DType::bf16:
      return 0x1p-8;
    case DType::f32:
      return 0x1p-24;
    case DType::f64:
      return 0x1p-53;
    case DType::e4m3:
      return 0x1p-4;
    case DType::e5m2:
      return 0x1p-3;
    default:
      return 0;
  }
}

void write_element(std::byte* to, DType type, double value) {
  const uint64_t bits = is_float(type) ? encode(type, value)
                        : value < 0    ? static_cast<uint64_t>(static_cast<int64_t>(value))
                                       : static_cast<uint64_t>(value);
  std::memcpy(to, &bits, static_cast<size_t>(size_of(type)));
}

double read_element(const std::byte* from, DType type) {
  uint64_t bits = 0;
  std::memcpy(&bits, from, static_cast<size_t>(size_of(type)));
  return decode(type, bits);
}

}  // namespace ptxbuilder
