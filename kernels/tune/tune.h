// Tuning one problem: tiles of ours measured against each other, by the benchmark's method.
#pragma once

#include "kernels/measure/interleave.h"
#include "kernels/tune/our_options.h"

namespace ptxbuilder::bench {

// The tiles of a product are the one that is chosen now, first, those that `ours` names, and the model's
// `top` candidates.
Contenders product_tiles(const Gpu& gpu, int top, OurOptions ours);

// Sustained times of contenders of ours, each checked. Throws Error as Method::measure does.
ShapeResult tune(Method& method, const Problem& problem, const Contenders& contenders);

}  // namespace ptxbuilder::bench
