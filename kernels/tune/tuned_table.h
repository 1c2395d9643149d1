// The table of tuned tiles as text: rows of kernels/gemm/tuned.def.
#pragma once

#include <string>

#include "kernels/measure/results.h"

namespace ptxbuilder::bench {

// `table` with `rows` in it, both texts of lines such as
//
//   PTXBUILDER_TUNED(bf16, bf16, "TN", 4096, 4096, 4096, "128x256x64_4_swap")
//
// A row takes the place of the one for the same product (all but the tile); a new one goes before the first
// larger m, n, k of its types and layout, else after the last of these, else at the end. All other lines,
// comments too, stay as they are. Throws Error that names the line of what is no such row.
std::string merge_tuned(const std::string& table, const std::string& rows);

// The fastest of ours but the steps for each shape, as such rows.
std::string tuned_rows(const RunResult& run);

}  // namespace ptxbuilder::bench
