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
  std::vector<std::optional<double>> ratios = {};  // relative to the reference, for tables; as many as
                                                   // values, or empty
};

struct Chart {
  std::string title, horizontal, vertical;
  std::vector<std::string> labels;
  std::vector<Series> series;
  bool lines = false;  // draw lines instead of bars
};

// Returns the charts, one below the other, as one SVG document. Throws Error if a series does not have as
// many values as there are labels.
std::string svg(const std::vector<Chart>& charts);

// Returns the results as a Markdown table, with a row for each series, a column for each label, and ratios in
// brackets.
std::string table(const Chart& chart);

// Returns charts of a run's TFLOP/s. Normally these are bars by shape. If shapes differ only in K, they are
// lines over K: one chart of gemm_multistage with one stage and with several, and one of gemm_multistage,
// gemm_warp_specialized, gemm_pingpong, ptxbuilder and the reference, as far as these contenders were run.
// There is one set of charts for each regime, cold and warm.
std::vector<Chart> charts(const RunResult& run);

}  // namespace ptxbuilder::bench
