// Reads products and norms of ranks of the C interface, in the form that the classes accept.
#pragma once

#include "kernels/c/ptxb.h"
#include "kernels/ranks/ranked_norm.h"
#include "kernels/ranks/ranked_product.h"
#include "kernels/ranks/ranked_tokens.h"

namespace ptxbuilder::c {

struct RankedCall {
  kernels::RankedForm form;
  int ranks;
  kernels::RankedArguments arguments;  // without stream, and with the memory if requested
};
// `gpu` is the device's number, or below 0 for the emulator. Throws Error that names the operand and the
// rule.
RankedCall read_ranked(const ptxb_ranked& ranked, bool with_memory, int gpu);

struct RankedNormCall {
  int ranks;
  kernels::RankedNormArguments arguments;  // filled in like those of RankedCall
};
RankedNormCall read_ranked_norm(const ptxb_ranked_norm& norm, bool with_memory, int gpu);

struct RankedTokensCall {
  kernels::TokenForm form;
  int ranks;
  kernels::RankedTokensArguments arguments;  // filled in like those of RankedCall
};
RankedTokensCall read_ranked_tokens(const ptxb_ranked_tokens& tokens, bool with_memory, int gpu);

}  // namespace ptxbuilder::c
