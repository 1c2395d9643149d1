// The table of tuned tiles as text: rows of kernels/gemm/tuned.def.
#pragma once

#include <string>

#include "kernels/measure/results.h"

namespace ptxbuilder::bench {

// Returns `table` with `rows` added; both are texts of lines such as
//
//   PTXBUILDER_TUNED(bf16, bf16, "TN", 4096, 4096, 4096, "128x256x64_4_swap")
//
// A row replaces the one for the same product (all columns except the tile); a new row is inserted before the
// first larger m, n, k of its types and layout, otherwise after the last of these, otherwise at the end. All
// other lines, including comments, do not change. Throws Error that names the line of an invalid row.
std::string merge_tuned(const std::string& table, const std::string& rows);

// Returns our fastest contender, except the steps, for each shape, as such rows.
std::string tuned_rows(const RunResult& run);

}  // namespace ptxbuilder::bench
