// Converts attention of the C interface to the form that class Attention accepts.
#pragma once

#include "kernels/attention_gradient/attention_gradient.h"
#include "kernels/c/ptxb.h"

namespace ptxbuilder::c {

// Returns the arguments without workspace and stream. `gpu` is the GPU's number, or negative for the
// emulator. Throws Error that names the operand and the rule.
kernels::AttentionArguments read_attention(const ptxb_attention& a, int gpu);
kernels::AttentionGradientArguments read_attention_gradient(const ptxb_attention_gradient& g, int gpu);

}  // namespace ptxbuilder::c
