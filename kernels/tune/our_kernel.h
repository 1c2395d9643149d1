// Loads a kernel of the project onto the benchmark's GPU: it is compiled with ptxas if available, and
// otherwise by the driver.
#pragma once

#include "kernels/measure/contender.h"
#include "kernels/tune/our_options.h"
#include "ptxbuilder/tile/kernel.h"
#include "runtime/compile/load.h"
#include "runtime/loaded_kernel.h"

namespace ptxbuilder::bench {

LoadOptions load_options(const OurOptions& options);

// Loads a kernel. Launches go to the device's stream. Throws Error from the builder's checks, ptxas and the
// driver.
std::unique_ptr<runtime::LoadedKernel> load(const Gpu& gpu, Kernel kernel, const OurOptions& options);

// Returns text such as "128x256x64_4, predicted 190.1 us", which begins with the tile.
std::string tile_configuration(const std::string& tile, double predicted_microseconds);

// Returns the matrices of a problem as a kernel's tensor arguments, innermost dimension first, with their
// strides.
runtime::Argument tensor_a(const GemmProblem& problem, const GemmProblem::Set& set);
runtime::Argument tensor_b(const GemmProblem& problem, const GemmProblem::Set& set);
runtime::Argument tensor_d(const GemmProblem& problem, const GemmProblem::Set& set);
// Returns D with exactly the columns that TMA stores, as Matmul passes it to its kernels, or with all columns
// if TMA stores nothing.
runtime::Argument tensor_d_by_tma(const GemmProblem& problem, const GemmProblem::Set& set);

}  // namespace ptxbuilder::bench
