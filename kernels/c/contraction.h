// Contractions of the C interface.
#pragma once

#include "kernels/c/ptxb.h"
#include "kernels/gemm/contraction.h"

namespace ptxbuilder::c {

// Reads a tensor with any strides. Throws Error.
kernels::ContractionTensor strided_tensor(const char* name, const ptxb_tensor* tensor, int gpu);

// Returns the contraction that a C struct describes. `gpu` is the GPU's number, or negative for the emulator.
// Throws Error.
kernels::ContractionArguments read_contraction(const ptxb_contraction& given, int gpu);

}  // namespace ptxbuilder::c
