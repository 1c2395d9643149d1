// Provides a contender for the benchmark that is a Matmul tuned at run time.
#pragma once

#include "kernels/gemm/config.h"
#include "kernels/tune/compile_ahead.h"

namespace ptxbuilder::bench {

using GemmKernels = OurKernels<kernels::GemmOperation, kernels::GemmTile>;

// Returns a contender that first calls tune() of Matmul, as a user would. The result of tune() is not saved,
// so each run measures again. The kernels are compiled in advance. If a product needs copies of D, the
// measured times include these copies.
std::unique_ptr<Contender> tuned_matmul(const Gpu& gpu, std::shared_ptr<GemmKernels> kernels);

}  // namespace ptxbuilder::bench
