// A run of a benchmark: its contenders over its shapes, and the report of what came out.
#pragma once

#include "kernels/bench/options.h"
#include "kernels/family/outcome.h"

namespace ptxbuilder::bench {

// An operation brings these to a run.
struct Benchmark {
  std::string title;   // of the report
  std::string inputs;  // what they are, as the report says it
  std::string checks;  // against what results are checked, likewise
  std::function<Contenders(const Gpu&)> ours;
  // It makes the contender that others are compared with, and adds to the report's environment; it may be
  // empty.
  std::function<std::unique_ptr<Contender>(const Gpu&, std::map<std::string, std::string>& environment)>
      reference = nullptr;
  // Each shape's reference is its fastest peer, and all rows are compared with those of the first of ours.
  bool against_peers = false;
  std::function<void(const RunResult&)> write_more = [](const RunResult&) {
  };  // files of its own, after each shape
};

// Measures shape after shape, as far as the time goes, and writes what there is after each. Throws Error
// where there is no GPU, and after the report where the reference was timed for no shape, as nothing scores.
command::Outcome run(const Options& options, const Benchmark& benchmark);

}  // namespace ptxbuilder::bench
