// Fits the model that predicts a product's time to measured times of tiles.
#pragma once

#include <span>
#include <string>

#include "kernels/tune/tile_times.h"

namespace ptxbuilder::bench {

// The accuracy of a model for a set of products. `error` and `behind` are means over the products; slower
// tiles have less weight in them.
struct Fit {
  double error = 0;   // root mean square of ln(predicted / measured)
  double behind = 0;  // mean loss of the tile with the shortest prediction, relative to the tile with the
                      // shortest measured time
  double worst = 0;   // largest loss of a product
  size_t products = 0;
};
Fit fit_of(std::span<const TimedProduct> products, const kernels::ModelConstants& constants);

// Searches for the constants that fit the products best, beginning with `start`, and returns them. Minimizes
// both the error and the expected loss of the chosen tile, assuming that predictions that differ by one
// percent cannot be distinguished. Throws Error if a product is reserved for evaluating choices
// (drawn_shapes.h).
kernels::ModelConstants fitted(std::span<const TimedProduct> products, const kernels::ModelConstants& start);

// Returns the accuracy in cross-validation. The products are divided into `parts` parts, and each part is
// evaluated with constants that were fitted to the other parts.
Fit cross_validated(std::span<const TimedProduct> products, const kernels::ModelConstants& start, int parts);

// Returns a list of the constants, one per line, that shows how a fit changed each of them.
std::string constants_text(const kernels::ModelConstants& before, const kernels::ModelConstants& after);

// Returns `model`, the text of kernels/gemm/model.def, after replacing its values with those of `constants`.
std::string model_text(const std::string& model, const kernels::ModelConstants& constants);

}  // namespace ptxbuilder::bench
