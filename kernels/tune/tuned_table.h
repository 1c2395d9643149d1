// Writes the table of tuned tiles, which are rows of kernels/gemm/tuned.def.
#pragma once

#include <string>

#include "kernels/measure/results.h"

namespace ptxbuilder::bench {

// Returns `table` with `rows` added. Both consist of lines such as
//
//   PTXBUILDER_TUNED(bf16, bf16, "TN", 4096, 4096, 4096, "128x256x64_4_swap")
//
// A row replaces the row for the same product, that is, the row in which all columns except the tile are
// equal. If there is none, the row is inserted before the first row with the same types and layout and a
// larger m, n, k. If there is no such row either, it is inserted after the last row with these types and
// layout, or at the end. All other lines, including comments, remain unchanged. If a row is not valid, throws
// an Error that names its line.
std::string merge_tuned(const std::string& table, const std::string& rows);

// Returns a row of the table for each shape, with the tile of our fastest contender that is not a step.
std::string tuned_rows(const RunResult& run);

}  // namespace ptxbuilder::bench
