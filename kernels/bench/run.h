// Runs a benchmark. A run measures the contenders for all shapes, and writes reports of the results.
#pragma once

#include "kernels/bench/options.h"
#include "kernels/family/outcome.h"

namespace ptxbuilder::bench {

// The parts of a run that depend on the operation.
struct Benchmark {
  std::string title;   // the report's title
  std::string inputs;  // description of the inputs, for the report
  std::string checks;  // description of the values that results are checked against, for the report
  std::function<Contenders(const Gpu&)> ours;
  // Creates the contender that the others are compared with, and adds entries to the report's environment.
  // May be empty.
  std::function<std::unique_ptr<Contender>(const Gpu&, std::map<std::string, std::string>& environment)>
      reference = nullptr;
  // If set, the reference of each shape is the peer that is fastest for it, and all rows are compared with
  // the rows of our first contender.
  bool against_peers = false;
  std::function<void(const RunResult&)> write_more = [](const RunResult&) {
  };  // writes files that only this benchmark has; called after each shape
};

// Measures one shape after another until the time limit is reached. After each shape, writes the results
// obtained so far. Throws Error if there is no GPU. If the reference was not timed for any shape, so that
// there is no score, throws Error after the report has been written.
command::Outcome run(const Options& options, const Benchmark& benchmark);

}  // namespace ptxbuilder::bench
