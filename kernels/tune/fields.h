// Measures a kernel for several values of its fields. Every combination is built and verified, and the
// combinations are timed alternately.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/family/execute.h"

namespace ptxbuilder::command {

struct TuneOptions {
  std::vector<std::string> fields;  // fields with the values to try, such as "bm=64,128"
  int rounds = 10;                  // number of rounds; each round times every combination once
  std::string program;  // the command that runs the best combination, such as "mine" or "ptxb run saxpy"
};

// A combination of values, and its results.
struct Trial {
  Fields fields;
  std::string values = {};  // values of the fields that vary, such as "bm=64 stages=2"
  bool is_default = false;  // whether all fields have their defaults
  std::unique_ptr<Built> built = {};
  std::unique_ptr<runtime::LoadedKernel> loaded = {};
  std::unique_ptr<Run> run = {};
  std::vector<Timing> rounds = {};  // one for each round
  std::string problem = {};         // the reason why the trial was not timed; "" if it was
  bool wrong = false;               // whether `problem` is a wrong result

  double median() const;  // returns the median of the rounds' medians, in microseconds
};

// Returns every combination of the values in `tried`. The last field varies fastest, and the fields that
// `tried` does not name are as in `fields`. Throws UsageError if a word is not a value of its field, if a
// field is named twice, or if it was also set by an option (`given`).
std::vector<Trial> trials(const Fields& fields, const std::vector<std::string>& tried,
                          const std::vector<std::string>& given);

// Builds all combinations on all processors, verifies each once, and times the correct ones in rounds. If
// `has_clock` is false, nothing is timed. A trial records why it was rejected or is wrong. Throws
// TimeoutError if a kernel hangs. Afterwards, `all` is sorted by time, beginning with the fastest; trials
// without a time follow in their original order.
void measure(const Family& family, std::vector<Trial>& all, runtime::Device& device,
             const ExecuteOptions& options, int rounds, bool has_clock);

// Measures all combinations, and prints a table and the best combination, or a JSON object. Throws Error if
// nothing could be timed; on the emulator, everything else is done first.
Outcome tune(const Family& family, const Fields& fields, const std::vector<std::string>& given,
             const ExecuteOptions& options, const TuneOptions& tuned);

}  // namespace ptxbuilder::command
