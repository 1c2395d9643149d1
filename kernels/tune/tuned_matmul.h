// Matmul itself, tuned at run time, as a contender of the benchmark.
#pragma once

#include "kernels/gemm/config.h"
#include "kernels/tune/compile_ahead.h"

namespace ptxbuilder::bench {

using GemmKernels = OurKernels<kernels::GemmOperation, kernels::GemmTile>;

// A product as a user has it who calls matmul.tune() first: what tune() finds is kept nowhere, so that each
// run measures anew. The kernels are compiled ahead; the odd products' copies of D are part of the time.
std::unique_ptr<Contender> tuned_matmul(const Gpu& gpu, std::shared_ptr<GemmKernels> kernels);

}  // namespace ptxbuilder::bench
