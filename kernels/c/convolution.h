// Converts the convolution structs of the C interface to the library's types.
#pragma once

#include "kernels/c/ptxb.h"
#include "kernels/gemm/convolution.h"

namespace ptxbuilder::c {

// Returns the convolution that a C struct describes. `gpu` is the GPU's number, or negative for the emulator.
// Throws Error if the struct is not valid.
kernels::ConvolutionArguments read_convolution(const ptxb_convolution& given, int gpu);

}  // namespace ptxbuilder::c
