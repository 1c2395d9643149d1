// Charts as SVG: lines over a common axis, or bars side by side.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/measure/results.h"

namespace ptxbuilder::bench {

struct Series {
  std::string name;
  std::vector<std::optional<double>> values;       // one for each label; empty if there is no result
  std::vector<std::optional<double>> ratios = {};  // to the reference, for tables; as many, or empty
};

struct Chart {
  std::string title, horizontal, vertical;
  std::vector<std::string> labels;
  std::vector<Series> series;
  bool lines = false;  // otherwise bars
};

// Returns the charts, one below the other, in one SVG document. Throws Error if a series and the labels
// differ in length.
std::string svg(const std::vector<Chart>& charts);

// Returns the results as a table in Markdown: a line for each series, a column for each label, ratios in
// brackets.
std::string table(const Chart& chart);

// Returns charts of a run's TFLOP/s: bars by shape; lines over K if shapes differ only in K, and then one
// chart for gemm_multistage with one stage against many, and one for gemm_multistage, gemm_warp_specialized,
// gemm_pingpong, ptxbuilder and the reference, if contenders of those names were run. There is one set of
// charts for each regime, cold and warm.
std::vector<Chart> charts(const RunResult& run);

}  // namespace ptxbuilder::bench
