// Code shared by the families of attention's gradient.
#pragma once

#include <map>

#include "kernels/attention/family.h"
#include "kernels/attention_gradient/fragments.h"

namespace ptxbuilder::kernels {

inline AttentionGradientOperation gradient_operation(const command::Fields& f) {
  const int columns =
      f.has("value_depth") && f["value_depth"] > 0 ? f.small("value_depth") : f.small("depth");
  AttentionGradientOperation o =
      gradient_operation(*dtype_from_name(f.word("type")), f.small("depth"), columns);
  const auto is_said = [&](const char* name) { return f.has(name) && f[name] != 0; };
  o.causal = is_said("causal");
  o.window = is_said("window");
  o.lse_grad = is_said("lse_grad"), o.deterministic = is_said("deterministic");
#define PTXBUILDER_ATTENTION_STEP(name, below, rule, meaning) o.name = is_said(#name);
#include "kernels/attention/attention.def"
  return o;
}
inline AttentionGradientTile gradient_tile(const command::Fields& f) {
  AttentionGradientTile t = gradient_tile(gradient_operation(f));
  if (f.has("rows") && f["rows"] > 0) t.bm = f.small("rows");
  if (f.has("ctas")) t.ctas = f.small("ctas"), t.heads_first = f["heads_first"] != 0;
  if (f.has("stages")) t.stages = f.small("stages");
  return t;
}

// The position of an element of dQ. `head` is counted over all batches. place_of_sum() returns the position
// to which number `i` of the sums belongs, if a head has `rows` rows.
struct GradientSumPlace {
  size_t head, row, column;
};
inline GradientSumPlace place_of_sum(size_t i, const AttentionGradientOperation& o,
                                     const AttentionGradientTile& t, size_t rows) {
  const GradientFragments sums(o, t);
  static thread_local std::map<std::pair<int, int>, RegisterLayout> layouts;  // indexed by rows and columns
  auto kept = layouts.find({sums.rows, sums.columns});
  if (kept == layouts.end()) kept = layouts.emplace(std::pair(sums.rows, sums.columns), sums.layout()).first;
  const RegisterLayout& layout = kept->second;
  const auto elements = static_cast<size_t>(sums.elements());
  const size_t part = i / elements, block = part / t.kConsumers, blocks = rows / static_cast<size_t>(t.bm),
               of_part = part % t.kConsumers;
  const auto in_part = static_cast<int>(i % elements), in_step = in_part % sums.kStep;
  const int thread = in_step / 4, value = in_part / sums.kStep * 4 + in_step % 4;
  auto row = static_cast<size_t>(layout.row(thread, value)),
       column = static_cast<size_t>(layout.col(thread, value));
  if (sums.are_transposed) std::swap(row, column);
  if (sums.are_columns)
    column += of_part * static_cast<size_t>(sums.columns);
  else
    row += of_part * static_cast<size_t>(sums.rows);
  return {block / blocks, block % blocks * static_cast<size_t>(t.bm) + row, column};
}

}  // namespace ptxbuilder::kernels
