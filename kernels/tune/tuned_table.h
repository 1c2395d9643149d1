// The table of tuned tiles as text: rows of kernels/gemm/tuned.def.
#pragma once

#include <string>

#include "kernels/measure/results.h"

namespace ptxbuilder::bench {

// Returns `table` with `rows` added. Both consist of lines such as
//
//   PTXBUILDER_TUNED(bf16, bf16, "TN", 4096, 4096, 4096, "128x256x64_4_swap")
//
// A row replaces the row for the same product (all columns except the tile). A new row is inserted before the
// first row with the same types and layout and a larger m, n, k; if there is none, after the last row with
// these types and layout; and otherwise at the end. All other lines, including comments, remain unchanged.
// Throws Error that names the line of an invalid row.
std::string merge_tuned(const std::string& table, const std::string& rows);

// Returns such a row for each shape, with the tile of our fastest contender that is not a step.
std::string tuned_rows(const RunResult& run);

}  // namespace ptxbuilder::bench
