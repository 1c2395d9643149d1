// Divisions by numbers that the host knows, which take the device less time as a multiplication and a shift.
#pragma once

#include <cstdint>
#include <string>

#include "ptxbuilder/tile/parameters.h"

namespace ptxbuilder::kernels {

// A number below 2^31 is divided by multiplying it by the factor and shifting the product right. With 2^(s-1)
// < divisor <= 2^s, factor times divisor exceeds 2^(31+s) by less than 2^s, and that excess times the number
// is less than 2^(31+s).
struct Reciprocal {
  uint32_t factor, shift;

  explicit Reciprocal(int64_t divisor) {
    uint32_t bits = 0;
    while (int64_t{1} << bits < divisor) ++bits;
    const auto by = static_cast<unsigned __int128>(divisor);
    shift = 31 + bits;
    factor = static_cast<uint32_t>(((static_cast<unsigned __int128>(1) << shift) + by - 1) / by);
  }
};

// Divides on the device with the parameters NAME, reciprocal_NAME and shift_NAME.
struct QuickDivision {
  u32 divisor, factor, shift;

  // Adds these parameters to a kernel's parameters; `meaning` describes the divisor.
  static void declare(Parameters& p, const std::string& name, const std::string& meaning) {
    const auto add = [&](const std::string& its, const std::string& says) {
      p.add(its, Parameter::Kind::scalar, DType::u32, says);
    };
    add(name, meaning);
    add("reciprocal_" + name,
        "factor whose product with a number, shifted right, is the number divided by " + name);
    add("shift_" + name, "number of bits of that shift");
  }

  QuickDivision(const Parameters& p, const std::string& name)
      : divisor(p.get<u32>(name)),
        factor(p.get<u32>("reciprocal_" + name)),
        shift(p.get<u32>("shift_" + name)) {}
  u32 operator()(u32 number) const { return u32(u64(number) * u64(factor) >> u64(shift)); }
};

}  // namespace ptxbuilder::kernels
