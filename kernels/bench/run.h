// A run of a benchmark: its contenders over its shapes, and the report of the results.
#pragma once

#include "kernels/bench/options.h"
#include "kernels/family/outcome.h"

namespace ptxbuilder::bench {

// The parts of a run that depend on the operation.
struct Benchmark {
  std::string title;   // title of the report
  std::string inputs;  // description of the inputs, for the report
  std::string checks;  // description of what results are checked against, for the report
  std::function<Contenders(const Gpu&)> ours;
  // Creates the contender that the others are compared with, and adds to the report's environment; may be
  // empty.
  std::function<std::unique_ptr<Contender>(const Gpu&, std::map<std::string, std::string>& environment)>
      reference = nullptr;
  // The reference of each shape is its fastest peer, and all rows are compared with those of our first
  // contender.
  bool against_peers = false;
  std::function<void(const RunResult&)> write_more = [](const RunResult&) {
  };  // the benchmark's own files, written after each shape
};

// Measures the shapes in turn, until the time limit, and after each shape writes the results so far. Throws
// Error if there is no GPU, and, after the report is written, if the reference was not timed for any shape,
// since then there is no score.
command::Outcome run(const Options& options, const Benchmark& benchmark);

}  // namespace ptxbuilder::bench
