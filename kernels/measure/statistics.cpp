#include "kernels/measure/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "ptxbuilder/error.h"

namespace ptxbuilder::bench {
namespace {

double quantile_of_sorted(std::span<const double> sorted, double q) {
  const double place = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  const double share = place - static_cast<double>(below);
  return sorted[below] * (1 - share) + sorted[above] * share;
}

}  // namespace

double quantile(std::span<const double> values, double q) {
  if (values.empty()) throw Error("quantile: no values");
  if (!(q >= 0 && q <= 1)) throw Error(fmt::format("quantile: {} must be between 0 and 1", q));
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  return quantile_of_sorted(sorted, q);
}

Interval bootstrap_median(std::span<const double> values, uint64_t seed, int resamples) {
  if (values.empty()) throw Error("bootstrap_median: no values");
  if (resamples < 1)
    throw Error(fmt::format("bootstrap_median: {} resamples were requested, but there must be at least one",
                            resamples));
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<size_t> index(0, values.size() - 1);
  std::vector<double> draw(values.size()), medians;
  for (int i = 0; i < resamples; ++i) {
    for (double& value : draw) value = values[index(random)];
    medians.push_back(median(draw));
  }
  std::sort(medians.begin(), medians.end());
  return {quantile_of_sorted(medians, 0.025), quantile_of_sorted(medians, 0.975)};
}

Ratio paired_ratio(std::span<const double> ours, std::span<const double> theirs, uint64_t seed) {
  if (ours.empty() || ours.size() != theirs.size())
    throw Error(fmt::format("paired_ratio: {} and {} times were given, but their numbers must be equal",
                            ours.size(), theirs.size()));
  std::vector<double> ratios;
  for (size_t i = 0; i < ours.size(); ++i) ratios.push_back(theirs[i] / ours[i]);
  return {median(ratios), quantile(ratios, 0.25), quantile(ratios, 0.75), bootstrap_median(ratios, seed),
          ratios.size()};
}

Verdict verdict(const Ratio& ratio) {
  if (ratio.interval.low > 1.01) return Verdict::win;
  if (ratio.median < 0.98) return Verdict::loss;
  return ratio.median <= 1.02 ? Verdict::tie : Verdict::open;
}

std::string_view name(Verdict verdict) {
  switch (verdict) {
    case Verdict::win:
      return "win";
    case Verdict::tie:
      return "tie";
    case Verdict::loss:
      return "loss";
    case Verdict::open:
      return "open";
  }
  return "";
}

double geometric_mean(std::span<const Weighted> values) {
  double sum = 0, weights = 0;
  for (const Weighted& v : values) {
    if (!(v.value > 0) || !(v.weight > 0))
      throw Error(fmt::format("geometric_mean: the value is {} and its weight {}, but both must be above 0",
                              v.value, v.weight));
    sum += v.weight * std::log(v.value);
    weights += v.weight;
  }
  if (values.empty()) throw Error("geometric_mean: no values");
  return std::exp(sum / weights);
}

}  // namespace ptxbuilder::bench
