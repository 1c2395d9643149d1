// Reads products, norms and token exchanges of ranks from the C interface, in the form that the classes
// accept.
#pragma once

#include "kernels/c/ptxb.h"
#include "kernels/ranks/ranked_norm.h"
#include "kernels/ranks/ranked_product.h"
#include "kernels/ranks/ranked_tokens.h"

namespace ptxbuilder::c {

struct RankedCall {
  kernels::RankedForm form;
  int ranks;
  kernels::RankedArguments arguments;  // without the stream; includes the memory only if requested
};
// `gpu` is the GPU's number, or negative for the emulator. These functions throw Error that names the operand
// and the rule.
RankedCall read_ranked(const ptxb_ranked& ranked, bool with_memory, int gpu);

struct RankedNormCall {
  int ranks;
  kernels::RankedNormArguments arguments;  // filled in as in RankedCall
};
RankedNormCall read_ranked_norm(const ptxb_ranked_norm& norm, bool with_memory, int gpu);

struct RankedTokensCall {
  kernels::TokenForm form;
  int ranks;
  kernels::RankedTokensArguments arguments;  // filled in as in RankedCall
};
RankedTokensCall read_ranked_tokens(const ptxb_ranked_tokens& tokens, bool with_memory, int gpu);

}  // namespace ptxbuilder::c
