// This is what the families of attention's gradient have in common.
#pragma once

#include "kernels/attention_gradient/fragments.h"
#include "kernels/family/family.h"

namespace ptxbuilder::kernels {

inline AttentionGradientTile gradient_tile(const command::Fields& f) {
  AttentionGradientTile t;
  t.bm = gradient_rows(f.small("depth"));
  if (f.has("stages")) t.stages = f.small("stages");
  return t;
}
inline AttentionGradientOperation gradient_operation(const command::Fields& f) {
  AttentionGradientOperation o;
  o.type = *dtype_from_name(f.word("type"));
  o.depth = f.small("depth");
  const auto is_said = [&](const char* name) { return f.has(name) && f[name] != 0; };
  o.causal = is_said("causal");
  o.window = is_said("window");
  o.lse_grad = is_said("lse_grad"), o.deterministic = is_said("deterministic");
#define PTXBUILDER_ATTENTION_STEP(name, rule, meaning) o.name = is_said(#name);
#include "kernels/attention/attention.def"
  return o;
}

// The element of dQ, by head of all batches, that number `i` of the sums is for, where a head has `rows` of
// them.
struct GradientSumPlace {
  size_t head, row, column;
};
inline GradientSumPlace place_of_sum(size_t i, const AttentionGradientOperation& o,
                                     const AttentionGradientTile& t, size_t rows) {
  using F = GradientFragments;
  static const RegisterLayout layout = F::layout();
  const size_t part = i / F::kElements, block = part / t.kConsumers,
               blocks = rows / static_cast<size_t>(t.bm), of_block = part % t.kConsumers * F::kPart;
  const auto in_part = static_cast<int>(i % F::kElements), in_step = in_part % F::kStep;
  const int thread = in_step / 4, value = in_part / F::kStep * 4 + in_step % 4;
  const auto row =
                 block % blocks * static_cast<size_t>(t.bm) + static_cast<size_t>(layout.row(thread, value)),
             column = static_cast<size_t>(layout.col(thread, value));
  if (F::are_columns(o)) return {block / blocks, row, column + of_block};
  return {block / blocks, row + of_block, column};
}

}  // namespace ptxbuilder::kernels
