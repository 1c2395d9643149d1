// Matmul itself, tuned at run time, as a contender of the benchmark.
#pragma once

#include "kernels/gemm/config.h"
#include "kernels/tune/compile_ahead.h"

namespace ptxbuilder::bench {

using GemmKernels = OurKernels<kernels::GemmOperation, kernels::GemmTile>;

// A product for a user who calls matmul.tune() first: the result of tune() is not saved, so that each run
// measures again. The kernels are compiled ahead; the copies of D in odd products are part of the time.
std::unique_ptr<Contender> tuned_matmul(const Gpu& gpu, std::shared_ptr<GemmKernels> kernels);

}  // namespace ptxbuilder::bench
