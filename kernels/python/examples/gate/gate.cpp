// y = silu(g) u for two rows of numbers, which is the step between the two products of a gated MLP.
#include <ptxbuilder/kernels/family/family.h>
#include <ptxbuilder/ptxbuilder.h>

using namespace ptxbuilder;

static Kernel gate(const command::Fields&) {
  Kernel k("gate");
  auto [g, u, y, n] = k.params<gptr<f32>, gptr<f32>, gptr<f32>, u32>("g", "u", "y", "n");
  k.threads(128);
  k.grid("ceil_div(n, 128)");  // the number of CTAs, which is computed from the parameter n
  u32 i = ctaid_x() * 128 + tid_x();
  if_(i < n, [&] { y[i] = g[i] / (1.0f + exp(-g[i])) * u[i]; });
  return k;
}

static const command::Registration registration({.name = "gate", .summary = "y = silu(g) u", .build = gate});
