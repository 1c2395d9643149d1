// Converts the C structs for products, norms and token exchanges of several ranks to the arguments that the
// library's classes accept.
#pragma once

#include "kernels/c/ptxb.h"
#include "kernels/ranks/ranked_norm.h"
#include "kernels/ranks/ranked_product.h"
#include "kernels/ranks/ranked_tokens.h"

namespace ptxbuilder::c {

struct RankedCall {
  kernels::RankedForm form;
  int ranks;
  kernels::RankedArguments arguments;  // without the stream; without the ranks' memory unless `with_memory`
                                       // is set
};
// `gpu` is the GPU's number, or negative for the emulator. If an operand breaks a rule, these functions throw
// an Error that names the operand and the rule.
RankedCall read_ranked(const ptxb_ranked& ranked, bool with_memory, int gpu);

struct RankedNormCall {
  int ranks;
  kernels::RankedNormArguments arguments;  // the same members are set as in RankedCall
};
RankedNormCall read_ranked_norm(const ptxb_ranked_norm& norm, bool with_memory, int gpu);

struct RankedTokensCall {
  kernels::TokenForm form;
  int ranks;
  kernels::RankedTokensArguments arguments;  // the same members are set as in RankedCall
};
RankedTokensCall read_ranked_tokens(const ptxb_ranked_tokens& tokens, bool with_memory, int gpu);

}  // namespace ptxbuilder::c
