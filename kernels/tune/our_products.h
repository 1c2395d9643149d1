// Provides the project's matrix products as contenders for the benchmark.
#pragma once

#include "kernels/measure/contender.h"
#include "kernels/tune/our_options.h"

namespace ptxbuilder::bench {

// Returns the project's own matrix products. The first contender represents the project; the others are
// variants for comparison. `gpu` must outlive the contenders.
Contenders our_products(const Gpu& gpu, const OurOptions& options);

}  // namespace ptxbuilder::bench
