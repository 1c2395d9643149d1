// Loads a kernel of the project onto the benchmark's GPU. The kernel is compiled with ptxas if ptxas is
// available, otherwise by the driver.
#pragma once

#include "kernels/measure/contender.h"
#include "kernels/tune/our_options.h"
#include "ptxbuilder/tile/kernel.h"
#include "runtime/compile/load.h"
#include "runtime/loaded_kernel.h"

namespace ptxbuilder::bench {

LoadOptions load_options(const OurOptions& options);

// Loads a kernel. Its launches use the device's stream. Throws Error if a check of the builder, ptxas or the
// driver fails.
std::unique_ptr<runtime::LoadedKernel> load(const Gpu& gpu, Kernel kernel, const OurOptions& options);

// Returns text such as "128x256x64_4, predicted 190.1 us", which consists of the tile and the prediction.
std::string tile_configuration(const std::string& tile, double predicted_microseconds);

// These functions return a matrix of a problem as a tensor argument for a kernel, with its strides, innermost
// dimension first.
runtime::Argument tensor_a(const GemmProblem& problem, const GemmProblem::Set& set);
runtime::Argument tensor_b(const GemmProblem& problem, const GemmProblem::Set& set);
runtime::Argument tensor_d(const GemmProblem& problem, const GemmProblem::Set& set);
// Returns D as Matmul passes it to its kernels, with exactly the columns that TMA stores, or with all columns
// if TMA stores none.
runtime::Argument tensor_d_by_tma(const GemmProblem& problem, const GemmProblem::Set& set);

}  // namespace ptxbuilder::bench
