// Tunes one problem: measures our tiles against each other, with the benchmark's method.
#pragma once

#include "kernels/measure/interleave.h"
#include "kernels/tune/our_options.h"

namespace ptxbuilder::bench {

// Returns the tiles of a product: first the one that is currently chosen, then those that `ours` names, and
// the model's first `top` candidates.
Contenders product_tiles(const Gpu& gpu, int top, OurOptions ours);

// Returns sustained times of our contenders, with checked results. Throws Error like Method::measure.
ShapeResult tune(Method& method, const Problem& problem, const Contenders& contenders);

}  // namespace ptxbuilder::bench
