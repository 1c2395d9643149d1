// Measures a kernel for several values of its fields: every combination is built, verified, and timed in turn
// with the others.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/family/execute.h"

namespace ptxbuilder::command {

struct TuneOptions {
  std::vector<std::string> fields;  // the values that are tried, such as "bm=64,128"
  int rounds = 10;                  // each of which times all combinations once
  std::string program;              // which runs the best: "mine", "ptxb run saxpy"
};

// One combination, and its results.
struct Trial {
  Fields fields;
  std::string values = {};  // of the fields that vary, such as "bm=64 stages=2"
  bool is_default = false;  // whether these are their defaults
  std::unique_ptr<Built> built = {};
  std::unique_ptr<runtime::LoadedKernel> loaded = {};
  std::unique_ptr<Run> run = {};
  std::vector<Timing> rounds = {};  // its times in each round
  std::string problem = {};         // why it was not timed; "" for nothing
  bool wrong = false;               // the problem is a wrong result

  double median() const;  // the median of the rounds' medians, in microseconds
};

// Returns every combination of the values, with the last field changing fastest and all other fields as in
// `fields`. Throws UsageError for words that are not values of a field, for a field that is named twice, and
// for a field that is `given` as an option of its own.
std::vector<Trial> trials(const Fields& fields, const std::vector<std::string>& tried,
                          const std::vector<std::string>& given);

// Builds all on all processors, verifies each once, and times the correct ones in rounds; on a device without
// a clock nothing is timed. A trial records why it was refused or wrong. Throws TimeoutError if a kernel
// hangs. `all` is sorted by time, the fastest first; trials without a time follow in their old order.
void measure(const Family& family, std::vector<Trial>& all, runtime::Device& device,
             const ExecuteOptions& options, int rounds, bool has_clock);

// Prints a table and the best combination, or one JSON object. Throws Error if nothing could be timed, and on
// the emulator once everything else is done.
Outcome tune(const Family& family, const Fields& fields, const std::vector<std::string>& given,
             const ExecuteOptions& options, const TuneOptions& tuned);

}  // namespace ptxbuilder::command
