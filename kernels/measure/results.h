// The results of a run of the benchmark: times by round of each contender for each shape.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/measure/nvml.h"
#include "kernels/measure/statistics.h"
#include "kernels/measure/workload.h"

namespace ptxbuilder::bench {

// sustained: bursts follow each other, and the card gets as hot as it can. cool: before each burst the card
// pauses and, unless the shape is a warm one, its L2 is overwritten.
enum class Regime : uint8_t { sustained, cool };
std::string_view name(Regime regime);

struct Sample {
  double microseconds = 0;  // of one launch, the mean of a burst
  Telemetry telemetry;
};

struct Entry {
  std::string contender, configuration;
  bool ours = false;
  bool step = false;            // one of our kernels that lead to the matrix product
  std::string left_out;         // why it was not timed; "" if it was
  std::string wrong;            // what is wrong with its result; "" if nothing is
  std::vector<Sample> samples;  // by round
  double joules = 0;            // of one product; 0 if not measured

  bool counts() const { return left_out.empty() && wrong.empty() && !samples.empty(); }
};

struct ShapeResult : Case {
  Regime regime = Regime::sustained;
  size_t sets = 0, launches = 0;  // buffer sets; launches of a burst, at least
  size_t reference_rows = 0;      // of the output, compared in full between contenders
  std::vector<Entry> entries;     // the reference, if there is one, last
};

// Returns the rounds in which the clocks of all contenders were within 2 %; all rounds if fewer than half
// are, for example if a contender draws more power than another, or if no clock is known.
std::vector<size_t> counted_rounds(const ShapeResult& result);
// Returns the times of those rounds.
std::vector<double> counted_times(const ShapeResult& result, const Entry& entry);

// Returns the entry of that contender if its times count; otherwise null.
const Entry* counting_entry(const ShapeResult& result, const std::string& contender);

struct EntrySummary {
  double microseconds, low_quartile, high_quartile;
  double tflops;
  double flops_per_clock;  // and SM; 0 if the clock is not known
  double sm_mhz, watts, celsius;
  uint64_t limits;             // in any burst
  std::optional<Ratio> ratio;  // to the reference: above 1 this one is faster; absent for the reference
};
// Returns the numbers of an entry that counts. `multiprocessors` may be 0.
EntrySummary summary(const ShapeResult& result, const Entry& entry, const std::string& reference,
                     int multiprocessors);

// The weighted geometric mean of an entry's ratios to the reference, or to another contender, over shapes for
// which both count.
struct Score {
  std::string contender;
  Regime regime;
  double mean = 0, weight = 0;
  size_t shapes = 0, of_shapes = 0;  // counted, and run
  std::map<Verdict, size_t> verdicts;
  std::map<std::string, double> groups;  // the mean of each group of shapes
  double worst = 0;                      // the lowest ratio,
  std::string worst_shape;               // and whose it is
  size_t below_98 = 0, below_95 = 0;     // ratios below 0.98 and 0.95
};

struct RunResult {
  std::map<std::string, std::string> environment;  // "device", "driver", "cublaslt", "date", ...
  std::vector<std::string> method;                 // sentences
  std::string title = "Matrix products";           // of the report
  // A contender's name, or kFastestPeer, or "" if there is no reference.
  std::string reference;
  int multiprocessors = 0;
  std::vector<ShapeResult> results;
  std::vector<std::string> not_run;  // shapes that the time limit left out
};

// As the reference, this name means that each shape has its own: the fastest peer on that shape.
inline constexpr char kFastestPeer[] = "the fastest peer";
// Returns the contender to which ratios of a shape refer, or "" if there is none.
std::string reference_of(const RunResult& run, const ShapeResult& result);

// Returns why the reference was timed for no shape, which is its reason for the first; "" if it was timed for
// one, or if there is no reference.
std::string absence_of_reference(const RunResult& run);

// Scores every contender except the reference; if the reference is the fastest peer, only ours.
std::vector<Score> scores(const RunResult& run);

// Scores only our contenders, against the fastest peer of each shape instead of the reference. Returns
// nothing unless two peers count anywhere, and if the reference is the fastest peer.
std::vector<Score> best_peer_scores(const RunResult& run);

}  // namespace ptxbuilder::bench
