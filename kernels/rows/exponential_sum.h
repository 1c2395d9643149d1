// The sum of the exponentials of a row, relative to its greatest element, in one exchange.
#pragma once

#include <cmath>

#include "kernels/rows/row.h"

namespace ptxbuilder::kernels {

constexpr float kLeast = -0x1.fffffep127f;  // the least finite number

// Returns the maximum of a part of a row. It is finite, so that a part after the last column, or a part that
// holds only -inf, has terms of 0.
inline Numbers part_maximum(const Numbers& x) { return max(reduce_rows(Reduction::max, x), kLeast); }

// Returns exp(x - most). x - most is finite if x and most are, while x times log2(e) might not be.
inline Numbers exponential(const Numbers& x, const Numbers& most) {
  return exp2((x - most) * kLog2E, Approx::yes);
}

struct ExponentialSum {
  Numbers most, sum;  // the greatest element; the sum of exp(x - most)
};

// Combines the parts: `sum` is the sum of exp(x - most) over a part, and `most` is the part's own maximum.
inline ExponentialSum exponential_sum(Row& row, const Numbers& most, const Numbers& sum) {
  const RowParts parts = row.exchange({most, sum});
  const Numbers all = parts.reduce(Reduction::max, [](const auto& part) { return part[0]; });
  return {all, parts.reduce(Reduction::add,
                            [&](const auto& part) { return part[1] * exponential(part[0], all); })};
}

}  // namespace ptxbuilder::kernels
