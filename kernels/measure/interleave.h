// Implements the benchmark's method of measurement. For each shape, all contenders run on the same data, in
// random order in each round, and each result is checked.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "kernels/measure/contender.h"
#include "kernels/measure/random_matrix.h"
#include "kernels/measure/results.h"
#include "kernels/measure/rounds.h"

namespace ptxbuilder::bench {

struct MethodOptions {
  int rounds = 30;
  double burst_milliseconds = 20;  // the minimum for a burst
  int least_launches = 20;         // the minimum for a burst
  double warm_up_seconds = 3;      // per shape, in the `sustained` regime
  double rest_milliseconds = 300;  // before each burst, in the `cool` regime
  uint64_t seed = 0;               // determines the data and the order
  int checked_elements = 200;      // number per result that is compared with float64
  bool compares_rows = true;  // whether up to 64 MiB of each result are compared with the reference's result
  double energy_seconds = 0;  // how long each contender runs after the rounds to measure its energy; 0: not
                              // measured
};

using Clock = std::chrono::steady_clock;

using command::interleave;

// Returns the number of buffer sets that together are at least three times as large as L2, clamped to 2 to
// 256; 1 for a warm shape.
size_t set_count(const Problem& problem, bool warm, size_t l2_bytes);

class Method {
 public:
  // `nvml` may be null. All arguments must outlive the method.
  Method(const Gpu& gpu, const Nvml* nvml, MethodOptions options)
      : gpu_(gpu), nvml_(nvml), options_(options) {}

  // Times `contenders` on a problem, with one result for each regime. `reference` names the contender that
  // the others are compared with. The rounds end when `deadline` has passed. If a contender does not support
  // the problem or computes a wrong result, its entry records this. Throws Error if the GPU fails, and
  // TimeoutError if a kernel hangs.
  std::vector<ShapeResult> measure(const Case& what, std::span<const Regime> regimes,
                                   std::span<const std::unique_ptr<Contender>> contenders,
                                   const std::string& reference, Clock::time_point deadline);

 private:
  struct Data;
  struct Lane;

  const RandomBlock& block(DType type);
  Data make_data(const Problem& problem, size_t sets);
  std::vector<Lane> prepare(const Problem& problem, const Data& data,
                            std::span<const std::unique_ptr<Contender>> contenders,
                            std::vector<Entry>& entries);
  void check(const Problem& problem, const Data& data, std::vector<Lane>& lanes, std::vector<Entry>& entries,
             const std::string& reference, ShapeResult& result);
  void make_bursts(std::vector<Lane>& lanes, size_t sets, ShapeResult& result);
  void warm_up(const std::vector<Lane>& lanes, Clock::time_point deadline);
  Sample burst(const Lane& lane, Regime regime, bool warm);
  void run_rounds(const std::vector<Lane>& lanes, ShapeResult& result, Clock::time_point deadline);
  void measure_energy(const std::vector<Lane>& lanes, ShapeResult& result);

  const Gpu& gpu_;
  const Nvml* nvml_;
  MethodOptions options_;
  std::map<DType, std::unique_ptr<RandomBlock>> blocks_;
  runtime::Buffer flushed_;  // twice the size of L2, so that overwriting it evicts everything else
};

}  // namespace ptxbuilder::bench
