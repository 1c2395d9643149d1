#include "runtime/emulator/machine/numeric.h"

#include <algorithm>

namespace ptxbuilder::runtime::emulator {
namespace {

// Rounds `value` >= 0 to an integer, as `rounding` requires for a number whose sign is `negative`.
double round_magnitude(double value, Rounding rounding, bool negative) {
  double floor = std::floor(value), rest = value - floor;
  if (rest == 0) return value;
  bool up = false;
  switch (rounding) {
    case Rounding::rn:
      up = rest > 0.5 || (rest == 0.5 && std::fmod(floor, 2) != 0);
      break;
    case Rounding::rna:
      up = rest >= 0.5;
      break;
    case Rounding::rz:
      break;
    case Rounding::rm:
      up = negative;
      break;
    case Rounding::rp:
      up = !negative;
      break;
  }
  return up ? floor + 1 : floor;
}

}  // namespace

uint32_t encode(double value, Format format, Rounding rounding, bool saturate) {
  const int m = format.mantissa_bits, e = format.exponent_bits, bias = format.bias();
  const uint32_t sign = std::signbit(value) ? 1u << (e + m) : 0, ones = (1u << (e + m)) - 1;
  const uint32_t infinity = ((1u << e) - 1) << m;  // also e4m3's first code past the usual range
  const uint32_t largest = format.has_infinity ? infinity - 1 : ones - 1;
  if (std::isnan(value)) return ones;
  const double magnitude = std::fabs(value);
  const bool negative = sign != 0;
  if (std::isinf(magnitude)) return sign | (saturate ? largest : format.has_infinity ? infinity : ones);
  if (magnitude == 0) return sign;
  int exponent = std::max(std::ilogb(magnitude), 1 - bias);
  double steps = round_magnitude(std::ldexp(magnitude, m - exponent), rounding,
                                 negative);  // of one unit in the last place
  if (steps >= std::ldexp(1.0, m + 1)) {
    steps /= 2;
    ++exponent;
  }
  uint64_t code = exponent + bias > 1 << (e + 1)
                      ? ~uint64_t{0}
                      : static_cast<uint64_t>(steps) + (static_cast<uint64_t>(exponent + bias - 1) << m);
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
