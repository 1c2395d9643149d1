// Writes the results of a benchmark run as a Markdown report for readers, and as JSON with all times for
// programs.
#pragma once

#include <string>

#include "kernels/measure/results.h"

namespace ptxbuilder::bench {

// Returns a report with the machine, the scores, and one line for each shape, regime and contender.
std::string markdown(const RunResult& run);

// Returns all results as JSON, with the times of every round.
std::string json(const RunResult& run);

// Returns a line for each contender and regime, such as "sustained 4096x4096x4096: gemm 175.0 us, 785.4
// TFLOP/s, 1.008 x cuBLASLt, tie".
std::string progress_lines(const ShapeResult& result, const std::string& reference);

}  // namespace ptxbuilder::bench
