// Computes what the benchmark says of its times: quantiles, paired ratios with an interval, verdicts, a
// weighted mean.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace ptxbuilder::bench {

// The value below which the share `q`, 0 to 1, of the values is; between two values in proportion. Throws
// Error when there are none.
double quantile(std::span<const double> values, double q);
inline double median(std::span<const double> values) { return quantile(values, 0.5); }

struct Interval {
  double low, high;
};

// The 95 % interval of the median of what the values are a sample of: the 2.5 and 97.5 % quantiles of the
// medians of `resamples` draws with replacement (Efron's percentile bootstrap).
Interval bootstrap_median(std::span<const double> values, uint64_t seed, int resamples = 2000);

// These compare the times of two contenders in the same rounds: how many times as fast the first is as the
// second.
struct Ratio {
  double median, low_quartile, high_quartile;
  Interval interval;  // of the median, 95 %
  size_t rounds;
};
// `ours` and `theirs` are times by round, of the same length, which is not 0. Throws Error otherwise.
Ratio paired_ratio(std::span<const double> ours, std::span<const double> theirs, uint64_t seed);

// win: the interval is above 1.01. tie: not so, and the median within 2 % of 1. loss: the median is below
// 0.98. open: the median is above 1.02, but the interval reaches down to 1.01.
enum class Verdict : uint8_t { win, tie, loss, open };
Verdict verdict(const Ratio& ratio);
std::string_view name(Verdict verdict);

struct Weighted {
  double value, weight;
};
// exp(sum w ln v / sum w). Throws Error when there are no values, or one or all weights are not above 0.
double geometric_mean(std::span<const Weighted> values);

}  // namespace ptxbuilder::bench
