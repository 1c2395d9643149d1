// This sums the powers of 2 of a row, relative to its greatest, in one exchange.
#pragma once

#include <cmath>

#include "kernels/rows/row.h"

namespace ptxbuilder::kernels {

// It gives the greatest of a part of a row, which is finite, so that a part behind the last column, or of
// -inf alone, has powers of 0.
inline Numbers part_maximum(const Numbers& x) {
  return max(reduce_rows(Reduction::max, x), -0x1.fffffep127f);
}

struct ExponentialSum {
  Numbers most, sum;  // the sum of exp2(x - most)
};

// `powers` are exp2(x - most), where `most` is the part's own.
inline ExponentialSum exponential_sum(Row& row, const Numbers& most, const Numbers& powers) {
  const RowParts parts = row.exchange({most, reduce_rows(Reduction::add, powers)});
  const Numbers all = parts.reduce(Reduction::max, [](const auto& part) { return part[0]; });
  return {all, parts.reduce(Reduction::add,
                            [&](const auto& part) { return part[1] * exp2(part[0] - all, Approx::yes); })};
}

}  // namespace ptxbuilder::kernels
