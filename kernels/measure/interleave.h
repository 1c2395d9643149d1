// The method of the benchmark. For each shape, all contenders run on the same data in one process, their
// bursts are in random order in each round, and each result is checked.
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
  double warm_up_seconds = 3;      // for the `sustained` regime, per shape
  double rest_milliseconds = 300;  // for the `cool` regime, before each burst
  uint64_t seed = 0;               // determines data and order
  int checked_elements = 200;      // per result, against float64
  bool compares_rows = true;       // whether each result is compared with the reference's, up to 64 MiB
  double energy_seconds = 0;       // how long each contender runs after the rounds to measure its energy; 0
                                   // skips this
};

using Clock = std::chrono::steady_clock;

using command::interleave;

// Returns how many buffer sets together are at least three times the L2, from 2 to 256; 1 for a warm shape.
size_t set_count(const Problem& problem, bool warm, size_t l2_bytes);

class Method {
 public:
  // `nvml` may be null. All arguments must outlive the method.
  Method(const Gpu& gpu, const Nvml* nvml, MethodOptions options)
      : gpu_(gpu), nvml_(nvml), options_(options) {}

  // Times `contenders` on a problem, with one result for each regime. `reference` names the contender that
  // the others are compared with. After `deadline` the rounds end. Each entry records what its contender does
  // not support or computes wrongly. Throws Error if the GPU fails, and TimeoutError if a kernel hangs.
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
  runtime::Buffer flushed_;  // twice the size of the L2; overwriting it empties the L2
};

}  // namespace ptxbuilder::bench
