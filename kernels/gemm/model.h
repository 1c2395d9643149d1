// A model of how long a matrix product takes with a tile, so that a tile can be chosen without measuring.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/gemm/config.h"

namespace ptxbuilder::kernels {

// The size of a product.
struct GemmSize {
  int64_t m = 0, n = 0, k = 0, batches = 1;  // `batches` may also be the number of groups, which divide m or
                                             // k
};

// Returns the size of a product without groups that is expected to have as many tiles and stages as the
// grouped product; the last block of tiles of a group of rows is half full on average. Other sizes are
// returned unchanged.
GemmSize without_groups(const GemmOperation& operation, const GemmSize& size, const GemmTile& tile);

// The model's constants for the GPU, which model.def describes. Those that are not hardware figures were
// fitted to measured times (`ptxb tune model`).
struct ModelConstants {
#define PTXBUILDER_CONSTANT(name, value, meaning) double name = value;
#include "kernels/gemm/model.def"
#undef PTXBUILDER_CONSTANT
};

// The model's prediction for a tile, in microseconds: the times of the SMs' steps, of L2 and of the GPU's
// memory, which overlap, and the time of the work that is done once per launch and per tile. The times assume
// the clock that the power limit allows; at the full clock the product would draw `watts`.
struct Prediction {
  double multiply = 0, l2 = 0, memory = 0, overhead = 0;
  double megahertz = 0, watts = 0;
  double sharpness = 3;  // sharpness of the maximum of the overlapping times: see microseconds()

  // Returns (multiply^sharpness + l2^sharpness + memory^sharpness)^(1/sharpness) + overhead.
  double microseconds() const;
};

// Predicts the time on an H100 SXM or H200 with `multiprocessors` SMs. `megahertz` is the clock if it is
// known; otherwise the clock follows from the power.
Prediction predict(const GemmOperation& operation, const GemmSize& size, const TilePlan& tile,
                   int multiprocessors, const ModelConstants& constants = {},
                   std::optional<double> megahertz = std::nullopt);

// Returns the clock, in MHz, that keeps a product within the power limit if it would draw `watts` at the full
// clock.
double clock_of(double watts, const ModelConstants& constants);

// Returns the number of tiles of the output, over all batches, if no tile is divided.
double tiles_of(const GemmTile& tile, const GemmSize& size);
// Returns the number of blocks of tiles, each of which the CTAs of a cluster process together; a block may
// include tiles outside the output.
double blocks_of(const GemmTile& tile, const GemmSize& size);
// The rows and columns of the last tile that are outside the output.
struct Outside {
  double rows, columns;
};
Outside outside(const GemmTile& tile, const GemmSize& size);

// Returns the extent of the output along a tile's columns.
inline int64_t columns_of(const GemmTile& t, const GemmSize& size) { return t.swapped ? size.m : size.n; }

}  // namespace ptxbuilder::kernels
