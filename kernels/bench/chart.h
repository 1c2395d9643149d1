// Charts as SVG: lines over a common axis, or bars side by side.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/bench/results.h"

namespace ptxbuilder::bench {

struct Series {
  std::string name;
  std::vector<std::optional<double>> values;  // one for each label; none where there is no result
};

struct Chart {
  std::string title, horizontal, vertical;
  std::vector<std::string> labels;
  std::vector<Series> series;
  bool lines = false;  // else bars
};

// The charts one below the other, in one SVG document. Throws Error when a series and the labels differ in
// length.
std::string svg(const std::vector<Chart>& charts);

// TFLOP/s of a run: bars by shape; lines over K where shapes differ in K alone, and then one chart for
// single-stage beside multi-stage and one for multi-stage, warp-specialised, ping-pong and the reference,
// where contenders of those names were run. One set of charts for each regime, cold and warm.
std::vector<Chart> charts(const RunResult& run);

}  // namespace ptxbuilder::bench
