// This sums the exponentials of a row, relative to its greatest, in one exchange.
#pragma once

#include <cmath>

#include "kernels/rows/row.h"

namespace ptxbuilder::kernels {

constexpr float kLeast = -0x1.fffffep127f;  // of finite numbers

// It gives the greatest of a part of a row, which is finite, so that a part after the last column, or of
// -inf alone, has terms of 0.
inline Numbers part_maximum(const Numbers& x) { return max(reduce_rows(Reduction::max, x), kLeast); }

// It gives exp(x - most), whose difference is finite where x and most are: x times log2(e) might not be.
inline Numbers exponential(const Numbers& x, const Numbers& most) {
  return exp2((x - most) * kLog2E, Approx::yes);
}

struct ExponentialSum {
  Numbers most, sum;  // the greatest, and the sum of exp(x - most)
};

// `sum` is that of exp(x - most) of a part, where `most` is the part's own.
inline ExponentialSum exponential_sum(Row& row, const Numbers& most, const Numbers& sum) {
  const RowParts parts = row.exchange({most, sum});
  const Numbers all = parts.reduce(Reduction::max, [](const auto& part) { return part[0]; });
  return {all, parts.reduce(Reduction::add,
                            [&](const auto& part) { return part[1] * exponential(part[0], all); })};
}

}  // namespace ptxbuilder::kernels
