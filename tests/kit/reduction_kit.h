// Computes the expected results of reductions with asynchronous copies.
#pragma once

#include <algorithm>
#include <vector>

#include "ptxbuilder/isa/rows.h"

namespace ptxbuilder::test {

using isa::CopyReduction;

// Returns the result of reducing `now` into `old`. Both are small integers, and are not negative if the type
// is unsigned.
inline double reduced(CopyReduction reduction, double old, double now) {
  auto a = static_cast<int64_t>(old), b = static_cast<int64_t>(now);
  switch (reduction) {
    case CopyReduction::add:
      return old + now;
    case CopyReduction::min:
      return std::min(old, now);
    case CopyReduction::max:
      return std::max(old, now);
    case CopyReduction::inc:
      return a >= b ? 0 : old + 1;
    case CopyReduction::dec:
      return a == 0 || a > b ? now : old - 1;
    case CopyReduction::bit_and:
      return static_cast<double>(a & b);
    case CopyReduction::bit_or:
      return static_cast<double>(a | b);
    default:
      return static_cast<double>(a ^ b);
  }
}

inline std::vector<double> integers(size_t count, uint32_t factor) {
  std::vector<double> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = (static_cast<uint32_t>(i) * factor >> 7) % 29;
  return values;
}

}  // namespace ptxbuilder::test
