#include "runtime/emulator/machine/numeric.h"

#include <algorithm>

namespace ptxbuilder::runtime::emulator {
namespace {

// Returns significand / 2^shift, rounded to an integer. `negative` is the sign of the number that is rounded;
// some rounding modes depend on it. `shift` is from 1 to 63.
uint64_t rounded(uint64_t significand, int shift, Rounding rounding, bool negative) {
  const uint64_t floor = significand >> shift, rest = significand & ((uint64_t{1} << shift) - 1),
                 half = uint64_t{1} << (shift - 1);
  bool up = false;
  switch (rounding) {
    case Rounding::rn:
      up = rest > half || (rest == half && floor % 2 != 0);
      break;
    case Rounding::rna:
      up = rest >= half;
      break;
    case Rounding::rz:
      break;
    case Rounding::rm:
      up = negative && rest != 0;
      break;
    case Rounding::rp:
      up = !negative && rest != 0;
      break;
  }
  return floor + up;
}

}  // namespace

uint32_t encode(double value, Format format, Rounding rounding, bool saturate) {
  const int m = format.mantissa_bits, e = format.exponent_bits, bias = format.bias();
  constexpr int of_double = 52;  // mantissa bits of a double
  const auto bits = std::bit_cast<uint64_t>(value);
  const bool negative = bits >> 63 != 0;
  const uint32_t sign = negative ? 1u << (e + m) : 0, ones = (1u << (e + m)) - 1;
  const uint32_t infinity = ((1u << e) - 1) << m;  // for e4m3, also the first code above the usual range
  const uint32_t largest = format.has_infinity ? infinity - 1 : ones - 1;
  if (std::isnan(value)) return ones;
  if (std::isinf(value)) return sign | (saturate ? largest : format.has_infinity ? infinity : ones);
  if (value == 0) return sign;
  const auto field = static_cast<int>(bits >> of_double & 0x7ff);
  const uint64_t mantissa = bits & ((uint64_t{1} << of_double) - 1);
  // A subnormal double is less than half the smallest number of any format. It is shifted by 63 bits, which
  // rounds it correctly.
  const int own = field - 1023, exponent = std::max(own, 1 - bias);
  const int shift = field == 0 ? 63 : std::min(of_double - m + exponent - own, 63);
  // A carry out of the mantissa increments the exponent. A subnormal number has the exponent 0.
  const uint64_t code = rounded(mantissa | uint64_t{1} << of_double, shift, rounding, negative) +
                        (static_cast<uint64_t>(exponent + bias - 1) << m);
  if (code <= largest) return sign | static_cast<uint32_t>(code);
  bool toward_zero = rounding == Rounding::rz || (rounding == Rounding::rm && !negative) ||
                     (rounding == Rounding::rp && negative);
  if (saturate || (toward_zero && format.has_infinity)) return sign | largest;
  return sign | (format.has_infinity ? infinity : ones);
}

float decode(uint32_t code, Format format) {
  const int m = format.mantissa_bits, e = format.exponent_bits;
  const uint32_t fraction = code & ((1u << m) - 1), exponent = (code >> m) & ((1u << e) - 1);
  const float sign = (code >> (e + m)) & 1 ? -1.0f : 1.0f;
  if (format.has_infinity && exponent == (1u << e) - 1)
    return fraction ? std::nanf("") : sign * std::numeric_limits<float>::infinity();
  if (!format.has_infinity && (code & ((1u << (e + m)) - 1)) == (1u << (e + m)) - 1) return std::nanf("");
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), 1 - format.bias() - m);
  return sign *
         std::ldexp(static_cast<float>(fraction + (1u << m)), static_cast<int>(exponent) - format.bias() - m);
}

}  // namespace ptxbuilder::runtime::emulator
