// Matmul itself, tuned at run time, as a contender of the benchmark.
#pragma once

#include "kernels/gemm/config.h"
#include "kernels/tune/compile_ahead.h"

namespace ptxbuilder::bench {

using GemmKernels = OurKernels<kernels::GemmOperation, kernels::GemmTile>;

// Returns a contender that represents a user who calls matmul.tune() first. The result of tune() is not
// saved, so each run measures again. The kernels are compiled in advance; if a product needs copies of D,
// these are part of the time.
std::unique_ptr<Contender> tuned_matmul(const Gpu& gpu, std::shared_ptr<GemmKernels> kernels);

}  // namespace ptxbuilder::bench
