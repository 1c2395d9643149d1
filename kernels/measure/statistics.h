// Computes the statistics that the benchmark prints for its times, such as quantiles, paired ratios with
// intervals, verdicts, and weighted means.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace ptxbuilder::bench {

// Returns the quantile `q`, from 0 to 1, interpolated between adjacent values. Throws Error if there are no
// values.
double quantile(std::span<const double> values, double q);
inline double median(std::span<const double> values) { return quantile(values, 0.5); }

struct Interval {
  double low, high;
};

// Returns the 95 % interval of the median of the distribution from which the values were sampled: the 2.5 and
// 97.5 % quantiles of the medians of `resamples` draws with replacement (Efron's percentile bootstrap).
Interval bootstrap_median(std::span<const double> values, uint64_t seed, int resamples = 2000);

// A comparison of two contenders by their times in the same rounds. A ratio is the speed of the first
// contender divided by the speed of the second.
struct Ratio {
  double median, low_quartile, high_quartile;
  Interval interval;  // 95 % interval of the median
  size_t rounds;
};
// `ours` and `theirs` hold the times in each round. Throws Error if they have different numbers of times or
// are empty.
Ratio paired_ratio(std::span<const double> ours, std::span<const double> theirs, uint64_t seed);

// The verdict on a ratio. `win`: the interval is above 1.01. `tie`: it is not a win, and the median is within
// 2 % of 1. `loss`: the median is below 0.98. `open`: the median is above 1.02, but the interval extends down
// to 1.01.
enum class Verdict : uint8_t { win, tie, loss, open };
Verdict verdict(const Ratio& ratio);
std::string_view name(Verdict verdict);

struct Weighted {
  double value, weight;
};
// Returns exp(sum w ln v / sum w). Throws Error if there are no values, or if a weight is not positive.
double geometric_mean(std::span<const Weighted> values);

}  // namespace ptxbuilder::bench
