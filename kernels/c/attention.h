// Converts the attention structs of the C interface to the arguments that class Attention accepts.
#pragma once

#include "kernels/attention_gradient/attention_gradient.h"
#include "kernels/c/ptxb.h"

namespace ptxbuilder::c {

// These functions return the arguments without workspace and stream. `gpu` is the GPU's number, or negative
// for the emulator. They throw an Error that names the operand and the rule if an operand breaks a rule.
kernels::AttentionArguments read_attention(const ptxb_attention& a, int gpu);
kernels::AttentionGradientArguments read_attention_gradient(const ptxb_attention_gradient& g, int gpu);

}  // namespace ptxbuilder::c
