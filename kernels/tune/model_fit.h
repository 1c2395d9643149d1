// Fits the model of a product's time to measured times of tiles.
#pragma once

#include <span>
#include <string>

#include "kernels/tune/tile_times.h"

namespace ptxbuilder::bench {

// The accuracy of a model on products. The terms are means over products, in which slower tiles have less
// weight.
struct Fit {
  double error = 0;   // root of the mean square of ln(predicted / measured)
  double behind = 0;  // mean loss of the predicted fastest tile, relative to the measured fastest
  double worst = 0;   // the largest of these losses
  size_t products = 0;
};
Fit fit_of(std::span<const TimedProduct> products, const kernels::ModelConstants& constants);

// Returns the constants that do best on the products, in a search from `start`. Two terms count: the error,
// and the loss of the tile that is chosen if predictions a percent apart cannot be distinguished. Throws
// Error for a product that judges choices (drawn_shapes.h).
kernels::ModelConstants fitted(std::span<const TimedProduct> products, const kernels::ModelConstants& start);

// Returns the error of the products in `parts` parts, each with constants that were fitted to the others.
Fit cross_validated(std::span<const TimedProduct> products, const kernels::ModelConstants& start, int parts);

// Returns what a fit changed, for people: a line for each constant.
std::string constants_text(const kernels::ModelConstants& before, const kernels::ModelConstants& after);

// Returns the lines of kernels/gemm/model.def with these values in place of the old ones.
std::string model_text(const std::string& model, const kernels::ModelConstants& constants);

}  // namespace ptxbuilder::bench
