// Converts the contraction structs of the C interface to the library's types.
#pragma once

#include "kernels/c/ptxb.h"
#include "kernels/gemm/contraction.h"

namespace ptxbuilder::c {

// Reads a tensor, which may have any strides. Throws Error if the tensor is not valid.
kernels::ContractionTensor strided_tensor(const char* name, const ptxb_tensor* tensor, int gpu);

// Returns the contraction that a C struct describes. `gpu` is the GPU's number, or negative for the emulator.
// Throws Error if the struct is not valid.
kernels::ContractionArguments read_contraction(const ptxb_contraction& given, int gpu);

}  // namespace ptxbuilder::c
