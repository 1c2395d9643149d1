// Measures several contenders in rounds, so that all of them run at the same clock and temperature.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <type_traits>
#include <vector>

namespace ptxbuilder::command {

// Calls `measure` once per round for each contender, in an order that the seed determines. Returns the
// samples, indexed by contender and round. Ends early, after a complete round and at least five rounds, once
// `stop` returns true.
template <class Measure, class Stop>
auto interleave(size_t contenders, int rounds, uint64_t seed, const Measure& measure, const Stop& stop) {
  constexpr int kLeastRounds = 5;
  std::mt19937_64 random(seed);
  std::vector<size_t> order(contenders);
  std::iota(order.begin(), order.end(), size_t{0});
  std::vector<std::vector<std::invoke_result_t<Measure, size_t>>> samples(contenders);
  for (int round = 0; round < rounds && (round < kLeastRounds || !stop()); ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (size_t i : order) samples[i].push_back(measure(i));
  }
  return samples;
}

}  // namespace ptxbuilder::command
