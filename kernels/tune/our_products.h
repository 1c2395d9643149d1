// The project's matrix products as contenders of the benchmark.
#pragma once

#include "kernels/measure/contender.h"
#include "kernels/tune/our_options.h"

namespace ptxbuilder::bench {

// Returns the project's own matrix products. The first represents the project; the others are variants to
// compare. They launch on `gpu`, which must outlive them.
Contenders our_products(const Gpu& gpu, const OurOptions& options);

}  // namespace ptxbuilder::bench
