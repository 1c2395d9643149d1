#include "kernels/measure/results.h"

#include <algorithm>
#include <functional>
#include <set>

#include "ptxbuilder/error.h"

namespace ptxbuilder::bench {
namespace {

constexpr uint64_t kBootstrapSeed = 1;  // constant, so that the same data give the same interval
constexpr double kClockSpread = 1.02;

std::vector<double> telemetry(const ShapeResult& result, const Entry& entry, double Telemetry::*member) {
  std::vector<double> values;
  for (size_t round : counted_rounds(result)) values.push_back(entry.samples[round].telemetry.*member);
  return values;
}

}  // namespace

std::string_view name(Regime regime) { return regime == Regime::sustained ? "sustained" : "cool"; }

std::vector<size_t> counted_rounds(const ShapeResult& result) {
  size_t rounds = SIZE_MAX;
  for (const Entry& e : result.entries)
    if (e.counts()) rounds = std::min(rounds, e.samples.size());
  std::vector<size_t> all, alike;
  for (size_t round = 0; rounds != SIZE_MAX && round < rounds; ++round) {
    double low = 0, high = 0;
    for (const Entry& e : result.entries) {
      if (!e.counts()) continue;
      const double clock = e.samples[round].telemetry.sm_mhz;
      low = low == 0 ? clock : std::min(low, clock);
      high = std::max(high, clock);
    }
    all.push_back(round);
    if (high <= kClockSpread * low) alike.push_back(round);
  }
  return 2 * alike.size() >= all.size() ? alike : all;
}

std::vector<double> counted_times(const ShapeResult& result, const Entry& entry) {
  std::vector<double> times;
  for (size_t round : counted_rounds(result)) times.push_back(entry.samples[round].microseconds);
  return times;
}

const Entry* counting_entry(const ShapeResult& result, const std::string& contender) {
  for (const Entry& e : result.entries)
    if (e.contender == contender && e.counts()) return &e;
  return nullptr;
}

EntrySummary summary(const ShapeResult& result, const Entry& entry, const std::string& reference,
                     int multiprocessors) {
  if (!entry.counts()) throw Error("summary: the times of " + entry.contender + " do not count");
  EntrySummary s = {};
  const std::vector<double> times = counted_times(result, entry);
  s.microseconds = median(times);
  s.low_quartile = quantile(times, 0.25);
  s.high_quartile = quantile(times, 0.75);
  s.tflops = flops(result.problem) / s.microseconds * 1e-6;
  s.sm_mhz = median(telemetry(result, entry, &Telemetry::sm_mhz));
  s.watts = median(telemetry(result, entry, &Telemetry::watts));
  s.celsius = median(telemetry(result, entry, &Telemetry::celsius));
  if (s.sm_mhz > 0 && multiprocessors > 0) s.flops_per_clock = s.tflops * 1e6 / s.sm_mhz / multiprocessors;
  for (const Sample& sample : entry.samples) s.limits |= sample.telemetry.limits;
  const Entry* theirs = counting_entry(result, reference);
  if (theirs && theirs != &entry)
    s.ratio = paired_ratio(times, counted_times(result, *theirs), kBootstrapSeed);
  return s;
}

namespace {

// Scores the contenders for which `takes_part` returns true. For each shape, they are compared with the
// contender that `opponent` returns.
std::vector<Score> scores(const RunResult& run, const std::function<bool(const Entry&)>& takes_part,
                          const std::function<std::string(const ShapeResult&)>& opponent) {
  std::vector<Score> all;
  std::vector<std::map<std::string, std::vector<Weighted>>> ratios;  // indexed by contender, then by group;
                                                                     // "" for all shapes
  for (const ShapeResult& result : run.results) {
    const std::string other = opponent(result);
    for (const Entry& entry : result.entries) {
      if (!takes_part(entry)) continue;
      auto same = [&](const Score& s) { return s.contender == entry.contender && s.regime == result.regime; };
      auto score = std::find_if(all.begin(), all.end(), same);
      if (score == all.end()) {
        Score fresh;
        fresh.contender = entry.contender;
        fresh.regime = result.regime;
        score = all.insert(all.end(), fresh);
        ratios.emplace_back();
      }
      ++score->of_shapes;
      if (!entry.counts()) continue;
      const EntrySummary s = summary(result, entry, other, run.multiprocessors);
      if (!s.ratio) continue;
      ++score->shapes;
      ++score->verdicts[verdict(*s.ratio)];
      score->weight += result.weight;
      const double ratio = s.ratio->median;
      score->below_98 += ratio < 0.98;
      score->below_95 += ratio < 0.95;
      if (score->shapes == 1 || ratio < score->worst) {
        score->worst = ratio;
        score->worst_shape = size_text(result.problem);
      }
      for (const std::string& group : {std::string(), result.group})
        ratios[static_cast<size_t>(score - all.begin())][group].push_back({ratio, result.weight});
    }
  }
  for (size_t i = 0; i < all.size(); ++i)
    for (const auto& [group, values] : ratios[i])
      (group.empty() ? all[i].mean : all[i].groups[group]) = geometric_mean(values);
  return all;
}

std::string fastest_peer(const ShapeResult& result) {
  const Entry* best = nullptr;
  for (const Entry& e : result.entries)
    if (!e.ours && e.counts() &&
        (!best || median(counted_times(result, e)) < median(counted_times(result, *best))))
      best = &e;
  return best ? best->contender : "";
}

}  // namespace

std::string reference_of(const RunResult& run, const ShapeResult& result) {
  return run.reference == kFastestPeer ? fastest_peer(result) : run.reference;
}

std::string absence_of_reference(const RunResult& run) {
  std::string why;
  for (const ShapeResult& result : run.results)
    for (const Entry& e : result.entries) {
      if (e.contender != run.reference) continue;
      if (e.left_out.empty()) return "";
      if (why.empty()) why = e.left_out;
    }
  return why;
}

std::vector<Score> scores(const RunResult& run) {
  return scores(
      run,
      [&](const Entry& e) { return run.reference == kFastestPeer ? e.ours : e.contender != run.reference; },
      [&](const ShapeResult& result) { return reference_of(run, result); });
}

std::vector<Score> best_peer_scores(const RunResult& run) {
  if (run.reference == kFastestPeer) return {};
  std::set<std::string> peers;
  for (const ShapeResult& result : run.results)
    for (const Entry& e : result.entries)
      if (!e.ours && e.counts()) peers.insert(e.contender);
  if (peers.size() < 2) return {};
  return scores(
      run, [](const Entry& e) { return e.ours; }, fastest_peer);
}

}  // namespace ptxbuilder::bench
