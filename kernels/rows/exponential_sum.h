// Computes the sum of the exponentials of a row, relative to its largest element, with a single exchange.
#pragma once

#include <cmath>

#include "kernels/rows/row.h"

namespace ptxbuilder::kernels {

constexpr float kLeast = -0x1.fffffep127f;  // the lowest finite number

// Returns the maximum of a part of a row, but at least kLeast. It is thus finite, so that the terms of a part
// are 0 if the part is beyond the last column or holds only -inf.
inline Numbers part_maximum(const Numbers& x) { return max(reduce_rows(Reduction::max, x), kLeast); }

// Returns exp(x - most). The subtraction comes before the multiplication by log2(e), which could overflow if
// applied to x.
inline Numbers exponential(const Numbers& x, const Numbers& most) {
  return exp2((x - most) * kLog2E, Approx::yes);
}

struct ExponentialSum {
  Numbers most, sum;  // largest element of the row, and sum of exp(x - most)
};

// Combines the parts of a row. `most` is the maximum of this part, and `sum` is the sum of exp(x - most) over
// this part.
inline ExponentialSum exponential_sum(Row& row, const Numbers& most, const Numbers& sum) {
  const RowParts parts = row.exchange({most, sum});
  const Numbers all = parts.reduce(Reduction::max, [](const auto& part) { return part[0]; });
  return {all, parts.reduce(Reduction::add,
                            [&](const auto& part) { return part[1] * exponential(part[0], all); })};
}

}  // namespace ptxbuilder::kernels
