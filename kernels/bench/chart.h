// Draws charts as SVG. A chart consists of lines over a common axis, or of groups of bars.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/measure/results.h"

namespace ptxbuilder::bench {

struct Series {
  std::string name;
  std::vector<std::optional<double>> values;       // one for each label; empty if there is no result
  std::vector<std::optional<double>> ratios = {};  // relative to the reference, for tables; one for each
                                                   // value, or empty
};

struct Chart {
  std::string title, horizontal, vertical;
  std::vector<std::string> labels;
  std::vector<Series> series;
  bool lines = false;  // whether lines are drawn instead of bars
};

// Returns the charts, one below the other, as one SVG document. Throws Error if a series does not have one
// value for each label.
std::string svg(const std::vector<Chart>& charts);

// Returns the results as a Markdown table, with a row for each series, a column for each label, and ratios in
// brackets.
std::string table(const Chart& chart);

// Returns charts of a run's TFLOP/s, one set for each regime, cold and warm. Shapes that differ only in K are
// drawn as lines over K, in two charts: one compares gemm_multistage with one stage and with several, and the
// other compares gemm_multistage, gemm_warp_specialized, gemm_pingpong, ptxbuilder and the reference.
// Contenders that were not run are omitted. All other shapes are drawn as bars.
std::vector<Chart> charts(const RunResult& run);

}  // namespace ptxbuilder::bench
