// This models how long a matrix product takes with a tile, for choosing a tile without measuring.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/gemm/config.h"

namespace ptxbuilder::kernels {

// The size of a product.
struct GemmSize {
  int64_t m = 0, n = 0, k = 0, batches = 1;  // or groups, which divide m or k
};

// A product without groups that takes as many tiles, and stages, as one in groups may be expected to take:
// the last block of tiles of a group of rows is half full in the mean. Others are as they are.
GemmSize without_groups(const GemmOperation& operation, const GemmSize& size, const GemmTile& tile);

// The model holds this of the GPU. model.def says what each is; what is not a figure of the hardware was
// fitted to measured times (`ptxb tune model`).
struct ModelConstants {
#define PTXBUILDER_CONSTANT(name, value, meaning) double name = value;
#include "kernels/gemm/model.def"
#undef PTXBUILDER_CONSTANT
};

// The model says this of a tile, in microseconds: of the SMs' steps, of L2, and of the GPU's memory, which
// act at once, and of what happens once for a launch and for each tile. They are at the clock that power
// leaves: at the full one the product would draw `watts`.
struct Prediction {
  double multiply = 0, l2 = 0, memory = 0, overhead = 0;
  double megahertz = 0, watts = 0;
  double sharpness = 3;  // of the largest of those that act at once: see microseconds()

  // (multiply^sharpness + l2^sharpness + memory^sharpness)^(1/sharpness) + overhead.
  double microseconds() const;
};

// This is for an H100 SXM or H200 with `multiprocessors` SMs.
// `megahertz` is the clock where it is known; else power says.
Prediction predict(const GemmOperation& operation, const GemmSize& size, const TilePlan& tile,
                   int multiprocessors, const ModelConstants& constants = {},
                   std::optional<double> megahertz = std::nullopt);

// The clock, in MHz, at which a product stays within the power's limit that would draw `watts` at the full
// one.
double clock_of(double watts, const ModelConstants& constants);

// Gives the tiles of the output, of all batches, in whole ones; none is divided.
double tiles_of(const GemmTile& tile, const GemmSize& size);
// Blocks of tiles that the CTAs of a cluster have side by side, with those outside of the output.
double blocks_of(const GemmTile& tile, const GemmSize& size);
// Rows, and columns, of the last tile outside the output.
struct Outside {
  double rows, columns;
};
Outside outside(const GemmTile& tile, const GemmSize& size);

// Gives what a tile's columns lie along.
inline int64_t columns_of(const GemmTile& t, const GemmSize& size) { return t.swapped ? size.m : size.n; }

}  // namespace ptxbuilder::kernels
