// Fits the model of a product's time to measured times of tiles.
#pragma once

#include <span>
#include <string>

#include "kernels/tune/tile_times.h"

namespace ptxbuilder::bench {

// The accuracy of a model for a set of products. The terms are means over the products, in which slower tiles
// have less weight.
struct Fit {
  double error = 0;   // root mean square of ln(predicted / measured)
  double behind = 0;  // mean loss of the tile that is predicted to be the fastest, relative to the one
                      // measured as the fastest
  double worst = 0;   // the largest of these losses
  size_t products = 0;
};
Fit fit_of(std::span<const TimedProduct> products, const kernels::ModelConstants& constants);

// Returns the constants that fit the products best, in a search that begins with `start`. Two terms are
// minimized: the error, and the expected loss of the chosen tile, if predictions that differ by one percent
// cannot be distinguished. Throws Error for a product that is reserved for judging choices (drawn_shapes.h).
kernels::ModelConstants fitted(std::span<const TimedProduct> products, const kernels::ModelConstants& start);

// Returns the error in cross-validation: the products are divided into `parts` parts, and each part is judged
// with constants that were fitted to the others.
Fit cross_validated(std::span<const TimedProduct> products, const kernels::ModelConstants& start, int parts);

// Returns the changes that a fit made as text for people, with a line for each constant.
std::string constants_text(const kernels::ModelConstants& before, const kernels::ModelConstants& after);

// Returns the lines of kernels/gemm/model.def with these values in place of the old ones.
std::string model_text(const std::string& model, const kernels::ModelConstants& constants);

}  // namespace ptxbuilder::bench
