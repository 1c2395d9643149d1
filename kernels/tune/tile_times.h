// Writes and parses lists of the measured times of tiles for many products. The model that predicts a
// product's time is fitted to these times.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/gemm/model.h"

namespace ptxbuilder::bench {

struct RunResult;

struct TimedTile {
  kernels::TilePlan tile;
  double microseconds;
};

struct TimedProduct {
  kernels::GemmOperation operation;
  kernels::GemmSize size;
  std::vector<TimedTile> tiles;
  double reference = 0;  // time of the reference in microseconds; 0: there is no reference
  double megahertz = 0;  // clock of the SMs during the measurement; 0: not known
};

// Returns a line for each product, such as "bf16 bf16 TN 16384 2048 5632 MHz=1605 cuBLASLt=70.31
// 128x256x64_4_2x1=71.22 ...": the type of A and B, the type of D, the layout, m, n, k, and medians in
// microseconds. Lines that begin with # are comments.
std::string tile_times(const RunResult& run);

// Parses lines in the form that tile_times() writes. If a line is not valid, throws an Error that names it.
std::vector<TimedProduct> parse_tile_times(std::string_view text);

}  // namespace ptxbuilder::bench
