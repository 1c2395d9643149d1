// Fitting the model of a product's time to measured times of tiles.
#pragma once

#include <span>
#include <string>

#include "kernels/tune/tile_times.h"

namespace ptxbuilder::bench {

// This says how a model does on products. Those of its terms are means over products, in which tiles count
// the less the slower they are.
struct Fit {
  double error = 0;  // root of the mean square of ln(predicted / measured)
  double behind =
      0;             // mean of what the tile that it predicts to be the fastest loses on the measured fastest
  double worst = 0;  // the most of these
  size_t products = 0;
};
Fit fit_of(std::span<const TimedProduct> products, const kernels::ModelConstants& constants);

// The constants that do best on the products, found from `start` on: what counts is the error, and what the
// tile loses that a choice between predictions a percent apart would take. Throws Error for a product that
// judges choices (drawn_shapes.h).
kernels::ModelConstants fitted(std::span<const TimedProduct> products, const kernels::ModelConstants& start);

// The error of the products in `parts` parts, each by constants that were fitted to the others.
Fit cross_validated(std::span<const TimedProduct> products, const kernels::ModelConstants& start, int parts);

// This prints what a fit changed, for people: a line for each constant.
std::string constants_text(const kernels::ModelConstants& before, const kernels::ModelConstants& after);

// The lines of kernels/gemm/model.def with these values in place of theirs.
std::string model_text(const std::string& model, const kernels::ModelConstants& constants);

}  // namespace ptxbuilder::bench
