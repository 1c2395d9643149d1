// Computes attention on the host as AttentionProblem defines it, in a different way from the benchmark's
// check.
#pragma once

#include <cmath>
#include <cstring>

#include "kernels/measure/attention_problem.h"

namespace ptxbuilder::test {

// Computes O. `shift` is added to column 3 of row 7.
inline void attend_on_host(const bench::AttentionProblem& p, const std::byte* q, const std::byte* k,
                           const std::byte* v, std::byte* o, double shift = 0) {
  const auto at = [&](const std::byte* tensor, int64_t i) { return read_element(tensor + 2 * i, p.type); };
  const auto attend = [&](int64_t row, int64_t key_row, int64_t keys, int64_t own) {
    const int64_t shared = row % p.heads * p.key_heads / p.heads;
    std::vector<double> sums(static_cast<size_t>(p.value_depth));
    double total = 0;
    for (int64_t j = 0; j < keys; ++j) {
      if ((p.causal && j > own) || (p.right >= 0 && j > own + p.right) || (p.left >= 0 && j < own - p.left))
        continue;
      const int64_t key = (key_row + j) * p.key_heads + shared;
      double score = 0;
      for (int64_t c = 0; c < p.depth; ++c) score += at(q, row * p.depth + c) * at(k, key * p.depth + c);
      const double weight = std::exp(score / std::sqrt(static_cast<double>(p.depth)));
      total += weight;
      for (int64_t c = 0; c < p.value_depth; ++c)
        sums[static_cast<size_t>(c)] += weight * at(v, key * p.value_depth + c);
    }
    for (int64_t c = 0; c < p.value_depth; ++c) {
      const double value = total > 0 ? sums[static_cast<size_t>(c)] / total : 0;
      const uint64_t bits = encode(p.type, row == 7 && c == 3 ? value + shift : value);
      std::memcpy(o + 2 * (row * p.value_depth + c), &bits, 2);
    }
  };
  int64_t query_row = 0, key_row = 0;
  for (int64_t b = 0; b < p.batches; ++b) {
    const int64_t queries = p.packed() ? p.lengths[static_cast<size_t>(b)] : p.queries,
                  keys = p.packed() ? queries : p.keys;
    for (int64_t i = 0; i < queries; ++i)
      for (int64_t h = 0; h < p.heads; ++h)
        attend((query_row + i) * p.heads + h, key_row, keys, i + keys - queries);
    query_row += queries, key_row += keys;
  }
}

}  // namespace ptxbuilder::test
