// Divides on the device by numbers that are known on the host. A multiplication and a shift replace the
// division, because they take less time.
#pragma once

#include <cstdint>
#include <string>

#include "ptxbuilder/tile/parameters.h"

namespace ptxbuilder::kernels {

// To divide a number below 2^31, multiply it by the factor and shift the product right. The result is exact:
// if 2^(s-1) < divisor <= 2^s, factor times divisor exceeds 2^(31+s) by less than 2^s, so the excess times
// the number is less than 2^(31+s).
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

// The device code of a division by the kernel parameter NAME, using the parameters reciprocal_NAME and
// shift_NAME.
struct QuickDivision {
  u32 divisor, factor, shift;

  // Adds the three parameters of a division to a kernel's parameters; `meaning` describes the divisor.
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
