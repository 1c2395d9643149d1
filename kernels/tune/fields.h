// Measures a kernel for several values of its fields: every combination is built and verified, and the
// combinations are timed in turn.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/family/execute.h"

namespace ptxbuilder::command {

struct TuneOptions {
  std::vector<std::string> fields;  // the values to try, such as "bm=64,128"
  int rounds = 10;                  // each round times all combinations once
  std::string program;              // the command that runs the best combination: "mine", "ptxb run saxpy"
};

// A combination of values, and its results.
struct Trial {
  Fields fields;
  std::string values = {};  // values of the fields that vary, such as "bm=64 stages=2"
  bool is_default = false;  // whether these values are the defaults
  std::unique_ptr<Built> built = {};
  std::unique_ptr<runtime::LoadedKernel> loaded = {};
  std::unique_ptr<Run> run = {};
  std::vector<Timing> rounds = {};  // one for each round
  std::string problem = {};         // why it was not timed; "" if it was
  bool wrong = false;               // whether the problem is a wrong result

  double median() const;  // the median of the rounds' medians, in microseconds
};

// Returns every combination of the values. The last field changes fastest, and all other fields are as in
// `fields`. Throws UsageError for words that are not values of a field, for a field that is named twice, and
// for a field that was also `given` as an option.
std::vector<Trial> trials(const Fields& fields, const std::vector<std::string>& tried,
                          const std::vector<std::string>& given);

// Builds all combinations on all processors, verifies each once, and times the correct ones in rounds; on a
// device without a clock nothing is timed. A trial records why it was refused or is wrong. Throws
// TimeoutError if a kernel hangs. Afterwards, `all` is sorted by time, fastest first; trials without a time
// follow in their original order.
void measure(const Family& family, std::vector<Trial>& all, runtime::Device& device,
             const ExecuteOptions& options, int rounds, bool has_clock);

// Prints a table and the best combination, or one JSON object. Throws Error if nothing could be timed, and on
// the emulator after everything else is done.
Outcome tune(const Family& family, const Fields& fields, const std::vector<std::string>& given,
             const ExecuteOptions& options, const TuneOptions& tuned);

}  // namespace ptxbuilder::command
