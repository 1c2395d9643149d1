// Predicts how long a matrix product takes with a given tile, so that a tile can be chosen without measuring.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/gemm/config.h"

namespace ptxbuilder::kernels {

// The size of a product.
struct GemmSize {
  int64_t m = 0, n = 0, k = 0, batches = 1;  // with groups, `batches` is their number
};

// Returns the size of an ungrouped product that has as many tiles and stages as the grouped product is
// expected to have, assuming that the last block of tiles of each group of rows is half full. If the
// operation has no groups, returns `size` unchanged.
GemmSize without_groups(const GemmOperation& operation, const GemmSize& size, const GemmTile& tile);

// The constants of the model, as listed in model.def. Constants that are not properties of the hardware were
// fitted to measured times (`ptxb tune model`).
struct ModelConstants {
#define PTXBUILDER_CONSTANT(name, value, meaning) double name = value;
#include "kernels/gemm/model.def"
#undef PTXBUILDER_CONSTANT
};

// The model's prediction for a tile. `multiply`, `l2` and `memory` are the times that the steps on the SMs,
// the transfers from L2 and those from the GPU's memory take; these times overlap. `overhead` is the time of
// the work done once per launch and once per tile. All times are in microseconds, at the clock `megahertz`
// that the power limit allows; at the full clock, the product would draw `watts`.
struct Prediction {
  double multiply = 0, l2 = 0, memory = 0, overhead = 0;
  double megahertz = 0, watts = 0;
  double sharpness = 3;  // exponent in microseconds()

  // Returns (multiply^sharpness + l2^sharpness + memory^sharpness)^(1/sharpness) + overhead.
  double microseconds() const;
};

// Predicts the time on an H100 SXM or H200 with `multiprocessors` SMs. `megahertz` is the clock, if known;
// otherwise the clock is derived from the power.
Prediction predict(const GemmOperation& operation, const GemmSize& size, const TilePlan& tile,
                   int multiprocessors, const ModelConstants& constants = {},
                   std::optional<double> megahertz = std::nullopt);

// Returns the clock, in MHz, at which a product stays within the power limit if it would draw `watts` at the
// full clock.
double clock_of(double watts, const ModelConstants& constants);

// Returns the number of tiles in the output, counted over all batches. Tiles that are divided count once.
double tiles_of(const GemmTile& tile, const GemmSize& size);
// Returns the number of blocks. A block is the tiles that the CTAs of a cluster process together; it may
// include tiles outside the output.
double blocks_of(const GemmTile& tile, const GemmSize& size);
// The numbers of rows and columns by which the last tiles extend beyond the output.
struct Outside {
  double rows, columns;
};
Outside outside(const GemmTile& tile, const GemmSize& size);

// Returns the extent of the output along the columns of tiles.
inline int64_t columns_of(const GemmTile& t, const GemmSize& size) { return t.swapped ? size.m : size.n; }

}  // namespace ptxbuilder::kernels
