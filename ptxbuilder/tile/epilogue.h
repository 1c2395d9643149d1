// Functions on tiles for the way out of a product: they compose as functions do, before the store rounds.
//   store<bf16>(D, acc, m, n, [&](const RegisterTile<f32>& x, const PanelPlace&) { return gelu(x * alpha);
//   });
#pragma once

#include "ptxbuilder/tile/register_tile.h"

namespace ptxbuilder {

inline RegisterTile<f32> relu(const RegisterTile<f32>& x) { return max(x, 0); }

// 1 / (1 + e^-x), by the approximate ex2 (PTX ISA, ex2.approx).
inline RegisterTile<f32> sigmoid(const RegisterTile<f32>& x) {
  constexpr double kLog2OfE = 1.4426950408889634;
  return 1 / (exp2(x * -kLog2OfE, Approx::yes) + 1);
}

// x sigmoid(x), also called swish.
inline RegisterTile<f32> silu(const RegisterTile<f32>& x) { return x * sigmoid(x); }

// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), where 1 + tanh(y) = 2 sigmoid(2 y).
inline RegisterTile<f32> gelu(const RegisterTile<f32>& x) {
  constexpr double kTwoRootTwoOverPi = 1.5957691216057308;
  return x * sigmoid((x + x * x * x * 0.044715) * kTwoRootTwoOverPi);
}

}  // namespace ptxbuilder
