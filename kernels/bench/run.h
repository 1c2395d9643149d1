// A run of a benchmark: its contenders over its shapes, and the report of the results.
#pragma once

#include "kernels/bench/options.h"
#include "kernels/family/outcome.h"

namespace ptxbuilder::bench {

// The parts of a run that depend on the operation.
struct Benchmark {
  std::string title;   // of the report
  std::string inputs;  // the kind of inputs, in the words of the report
  std::string checks;  // what results are checked against, in the words of the report
  std::function<Contenders(const Gpu&)> ours;
  // Creates the contender with which the others are compared, and adds to the report's environment; this
  // function may be empty.
  std::function<std::unique_ptr<Contender>(const Gpu&, std::map<std::string, std::string>& environment)>
      reference = nullptr;
  // Each shape's reference is its fastest peer, and all rows are compared with those of our first contender.
  bool against_peers = false;
  std::function<void(const RunResult&)> write_more = [](const RunResult&) {
  };  // files of its own, after each shape
};

// Measures the shapes in turn, until the time limit, and writes the results so far after each. Throws Error
// if there is no GPU, and after the report if the reference was timed for no shape, as nothing scores.
command::Outcome run(const Options& options, const Benchmark& benchmark);

}  // namespace ptxbuilder::bench
