// Holds the results of a benchmark run, with the times of each contender for each shape and round.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/measure/nvml.h"
#include "kernels/measure/statistics.h"
#include "kernels/measure/workload.h"

namespace ptxbuilder::bench {

// The thermal state of the card. In `sustained`, bursts follow each other without a pause, so that the card
// reaches its highest temperature. In `cool`, the card rests before each burst and, unless the shape is warm,
// its L2 is overwritten.
enum class Regime : uint8_t { sustained, cool };
std::string_view name(Regime regime);

struct Sample {
  double microseconds = 0;  // mean time of a launch in a burst
  Telemetry telemetry;
};

struct Entry {
  std::string contender, configuration;
  bool ours = false;
  bool step = false;            // whether the contender is a step towards our matrix product
  std::string left_out;         // the reason why the contender was not timed; "" if it was
  std::string wrong;            // what is wrong with the result; "" if nothing is
  std::vector<Sample> samples;  // one for each round
  double joules = 0;            // energy per product; 0 if not measured

  bool counts() const { return left_out.empty() && wrong.empty() && !samples.empty(); }
};

struct ShapeResult : Case {
  Regime regime = Regime::sustained;
  size_t sets = 0, launches = 0;  // number of buffer sets, and minimum number of launches in a burst
  size_t reference_rows = 0;      // rows of the output that are compared in full between contenders
  std::vector<Entry> entries;     // the reference is last, if there is one
};

// Returns the rounds in which the clocks of all contenders were within 2 % of each other. If fewer than half
// of the rounds qualify, for example because a contender draws more power than another, or if the clocks are
// not known, returns all rounds.
std::vector<size_t> counted_rounds(const ShapeResult& result);
// Returns the times of counted_rounds().
std::vector<double> counted_times(const ShapeResult& result, const Entry& entry);

// Returns the entry of `contender` if the entry's times count, otherwise null.
const Entry* counting_entry(const ShapeResult& result, const std::string& contender);

struct EntrySummary {
  double microseconds, low_quartile, high_quartile;
  double tflops;
  double flops_per_clock;  // per clock cycle and SM; 0 if the clock is not known
  double sm_mhz, watts, celsius;
  uint64_t limits;             // limits that were active in any burst
  std::optional<Ratio> ratio;  // relative to the reference: above 1 means that this contender is faster;
                               // empty for the reference
};
// Returns the summary of an entry that counts. `multiprocessors` may be 0.
EntrySummary summary(const ShapeResult& result, const Entry& entry, const std::string& reference,
                     int multiprocessors);

// A contender's score, which is the weighted geometric mean of its ratios to the reference, or to another
// contender. The mean is over the shapes for which the times of both contenders count.
struct Score {
  std::string contender;
  Regime regime;
  double mean = 0, weight = 0;
  size_t shapes = 0, of_shapes = 0;  // number of shapes that count, and number of shapes that were run
  std::map<Verdict, size_t> verdicts;
  std::map<std::string, double> groups;  // the mean of each group of shapes
  double worst = 0;                      // the lowest ratio
  std::string worst_shape;               // the shape with the lowest ratio
  size_t below_98 = 0, below_95 = 0;     // ratios below 0.98 and 0.95
};

struct RunResult {
  std::map<std::string, std::string> environment;  // indexed by "device", "driver", "cublaslt", "date", ...
  std::vector<std::string> method;                 // sentences that describe the method
  std::string title = "Matrix products";           // title of the report
  // The name of a contender, or kFastestPeer, or "" if there is no reference.
  std::string reference;
  int multiprocessors = 0;
  std::vector<ShapeResult> results;
  std::vector<std::string> not_run;  // shapes that were skipped because of the time limit
};

// If the reference has this name, the reference of each shape is the fastest peer for that shape.
inline constexpr char kFastestPeer[] = "the fastest peer";
// Returns the contender to which a shape's ratios are relative, or "" if there is none.
std::string reference_of(const RunResult& run, const ShapeResult& result);

// If the reference was not timed for any shape, returns the reason that is recorded for the first shape.
// Returns "" if the reference was timed for a shape, or if there is no reference.
std::string absence_of_reference(const RunResult& run);

// Scores every contender except the reference; if the reference is the fastest peer, scores only our
// contenders.
std::vector<Score> scores(const RunResult& run);

// Scores only our contenders, against the fastest peer of each shape instead of the reference. Returns
// nothing if fewer than two peers count, or if the reference is the fastest peer.
std::vector<Score> best_peer_scores(const RunResult& run);

}  // namespace ptxbuilder::bench
