// Tunes a problem. Uses the benchmark's method of measurement to compare our tiles.
#pragma once

#include "kernels/measure/interleave.h"
#include "kernels/tune/our_options.h"

namespace ptxbuilder::bench {

// Returns contenders for tiles of a product. The first is for the tile that is currently chosen; then follow
// the tiles that `ours` names, and the model's first `top` candidates.
Contenders product_tiles(const Gpu& gpu, int top, OurOptions ours);

// Measures our contenders in the `sustained` regime, and checks their results. Throws Error when
// Method::measure() does.
ShapeResult tune(Method& method, const Problem& problem, const Contenders& contenders);

}  // namespace ptxbuilder::bench
