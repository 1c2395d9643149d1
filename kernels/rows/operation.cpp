#include "kernels/rows/operation.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/rows/operations.h"

namespace ptxbuilder::kernels {

std::vector<std::string> RowOperation::sizes() const {
  std::vector<std::string> words;
  for (const RowTensor& t : tensors)
    for (const std::string& word : t.shape)
      if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
  return words;
}

std::optional<int64_t> RowOperation::fixed_extent(const std::string& word) const {
  for (const auto& [of, value] : fixed)
    if (of == word) return value;
  return std::nullopt;
}

bool RowOperation::has_sums() const {
  return std::any_of(tensors.begin(), tensors.end(), [](const RowTensor& t) { return t.is_summed; });
}

const std::vector<RowOperation>& row_operations() {
  static const std::vector<RowOperation> all = {rms_norm(),
                                                rms_norm_gradient(),
                                                layer_norm(),
                                                layer_norm_gradient(),
                                                softmax(),
                                                softmax_gradient(),
                                                cross_entropy(),
                                                cross_entropy_gradient(),
                                                cumsum(),
                                                embedding(),
                                                rotary(),
                                                rotary_gradient(),
                                                append(),
                                                mla_append(),
                                                top_k(),
                                                transpose(),
                                                rms_scale(),
                                                quantize_1x128(),
                                                silu_gate_quantize_1x128(),
                                                quantize_128x1()};
  return all;
}

const RowOperation& row_operation(std::string_view name) {
  std::string names;
  for (const RowOperation& o : row_operations()) {
    if (o.name == name) return o;
    names += (names.empty() ? "" : ", ") + o.name;
  }
  throw Error(fmt::format("no operation on rows is named '{}'; the operations are {}", name, names));
}

}  // namespace ptxbuilder::kernels
