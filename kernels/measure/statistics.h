// The statistics that the benchmark prints for its times: quantiles, paired ratios with an interval,
// verdicts, and weighted means.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace ptxbuilder::bench {

// Returns the value below which a share `q`, from 0 to 1, of the values is, interpolated between two values.
// Throws Error if there are no values.
double quantile(std::span<const double> values, double q);
inline double median(std::span<const double> values) { return quantile(values, 0.5); }

struct Interval {
  double low, high;
};

// Returns the 95 % interval of the median of the distribution from which the values were sampled: the 2.5 and
// 97.5 % quantiles of the medians of `resamples` draws with replacement (Efron's percentile bootstrap).
Interval bootstrap_median(std::span<const double> values, uint64_t seed, int resamples = 2000);

// A comparison of the times of two contenders in the same rounds: the speed of the first divided by the speed
// of the second.
struct Ratio {
  double median, low_quartile, high_quartile;
  Interval interval;  // 95 % interval of the median
  size_t rounds;
};
// `ours` and `theirs` are times by round. Throws Error unless they have the same number of times, at least
// one.
Ratio paired_ratio(std::span<const double> ours, std::span<const double> theirs, uint64_t seed);

// win: the interval is above 1.01. tie: not a win, and the median is within 2 % of 1. loss: the median is
// below 0.98. open: the median is above 1.02, but the interval extends down to 1.01.
enum class Verdict : uint8_t { win, tie, loss, open };
Verdict verdict(const Ratio& ratio);
std::string_view name(Verdict verdict);

struct Weighted {
  double value, weight;
};
// Returns exp(sum w ln v / sum w). Throws Error if there are no values, or if a weight is not positive.
double geometric_mean(std::span<const Weighted> values);

}  // namespace ptxbuilder::bench
