// Tuning one product: the model's first tiles measured beside the one that is chosen now, by the benchmark's
// method.
#pragma once

#include "kernels/measure/interleave.h"

namespace ptxbuilder::bench {

// Sustained times of the tile that is chosen now, first, of those that `ours` names, and of the model's `top`
// candidates, each checked.
// Throws Error as Method::measure does.
ShapeResult tune(const Gpu& gpu, const GemmProblem& problem, int top, const MethodOptions& method,
                 OurOptions ours);

}  // namespace ptxbuilder::bench
