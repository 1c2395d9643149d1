// Computes the expected gradients of attention in float64.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <optional>
#include <unordered_map>
#include <vector>

#include "kernels/attention/family.h"

namespace ptxbuilder::kernels {

struct AttentionGradientRule {
  double scale, softcap = 0;
  std::optional<int64_t> visible = {},
                         window_start = {};  // query i sees keys i + window_start to i + visible - 1
  DropoutRule dropout = {};
};

// Computes elements of dK, of dV and of the sums of dQ. `numbers` holds the two numbers for each query, in
// the form in which attention_gradient() receives them.
class AttentionGradientReference {
 public:
  AttentionGradientReference(const command::Tensor& q, const command::Tensor& k, const command::Tensor& v,
                             const command::Tensor& grad, const command::Tensor& numbers,
                             AttentionGradientRule rule)
      : q_(q),
        k_(k),
        v_(v),
        grad_(grad),
        numbers_(numbers),
        rule_(rule),
        depth_(q.shape()[0]),
        columns_(v.shape()[0]),
        queries_(q.shape()[1]),
        keys_(k.shape()[1]),
        group_(q.shape()[2] / k.shape()[2]),
        block_(numbers.shape()[0]),
        blocks_(numbers.shape()[2]) {}

  command::Expected key(size_t i) const { return of_key(i, q_, true); }
  command::Expected value(size_t i) const { return of_key(i, grad_, false); }
  // Returns a sum of dQ. `head` is counted over all batches.
  command::Expected query_sum(size_t head, size_t row, size_t column) const {
    if (row >= queries_) return {0, 0};
    const std::vector<Pair>& pairs = kept(head * queries_ + row, true);
    double sum = 0, tolerance = 0;
    for (size_t j = 0; j < pairs.size(); ++j) {
      const double x = k_[(head / group_ * keys_ + j) * depth_ + column];
      sum += pairs[j].slope * x, tolerance += pairs[j].slope_error * std::abs(x);
    }
    return {sum, tolerance};
  }

 private:
  // The weight of a key for a query, the slope with respect to its score, and error bounds for both. The
  // bounds include rounding to the type of V and the error of scores, products and exp2 in f32.
  struct Pair {
    double weight = 0, slope = 0, weight_error = 0, slope_error = 0;
  };
  Pair pair(size_t head, size_t query, size_t key) const {
    const int64_t ahead = static_cast<int64_t>(key) - static_cast<int64_t>(query);
    if ((rule_.visible && ahead >= *rule_.visible) || (rule_.window_start && ahead < *rule_.window_start))
      return {};
    const size_t at = head * queries_ + query, of = head / group_ * keys_ + key;
    const auto dot = [&](const command::Tensor& x, const command::Tensor& y, size_t columns, double& size) {
      double sum = 0;
      for (size_t l = 0; l < columns; ++l) {
        const double term = x[at * columns + l] * y[of * columns + l];
        sum += term, size += std::abs(term);
      }
      return sum;
    };
    double score_size = 0, product_size = 0;
    double score = dot(q_, k_, depth_, score_size);
    const double product = dot(grad_, v_, columns_, product_size);
    constexpr double kLog2E = 1.4426950408889634;
    const double u = unit_roundoff(v_.dtype()), sum = number(head, query, 1);
    Pair p;
    double f32_error = 0x1p-20 * rule_.scale * score_size + 1e-5, bend = 1, bend_error = 0;
    score *= rule_.scale;
    if (rule_.softcap > 0) {  // tanh.approx is accurate to 11 bits
      const double t = std::tanh(score / rule_.softcap);
      score = rule_.softcap * t, f32_error += 0x1p-10 * std::abs(score);
      bend = 1 - t * t, bend_error = 0x1p-9 * t * t;
    }
    const size_t heads = q_.shape()[2];
    const double weight = std::exp2(score * kLog2E - number(head, query, 0)),
                 kept = rule_.dropout.factor(head / heads, head % heads, query, key);
    p.weight = weight * kept;
    p.weight_error = p.weight * (u + f32_error);
    const double slope = weight * (product * kept - sum);
    p.slope = slope * bend;
    p.slope_error = std::abs(p.slope) * (u + f32_error) + std::abs(slope) * bend_error +
                    weight * 0x1p-20 * (product_size * kept + std::abs(sum));
    return p;
  }

  double number(size_t head, size_t query, size_t which) const {
    return numbers_[((head * blocks_ + query / block_) * 2 + which) * block_ + query % block_];
  }

  command::Expected of_key(size_t i, const command::Tensor& factors, bool of_slope) const {
    const size_t columns = factors.shape()[0], first = i / columns / keys_ * group_ * queries_;
    const std::vector<Pair>& pairs = kept(i / columns, false);
    double sum = 0, tolerance = 0;
    for (size_t j = 0; j < pairs.size(); ++j) {
      const double x = factors[(first + j) * columns + i % columns];
      sum += (of_slope ? pairs[j].slope : pairs[j].weight) * x;
      tolerance += (of_slope ? pairs[j].slope_error : pairs[j].weight_error) * std::abs(x);
    }
    const double scale = of_slope ? rule_.scale : 1;
    return {sum * scale,
            tolerance * scale + unit_roundoff(v_.dtype()) * std::abs(sum * scale) * 1.01 + 0x1p-24};
  }

  // Returns the pairs of a query with all keys or, if not `of_query`, of a key with the queries of all heads
  // that share it. Sums of dQ are requested in the order of the kernel's fragments, which cover many rows at
  // once. Each thread therefore caches the rows that it has computed, up to a limit.
  const std::vector<Pair>& kept(size_t row, bool of_query) const {
    struct Kept {
      uint64_t reference = 0;
      bool of_query = false;
      size_t pairs = 0;
      std::unordered_map<size_t, std::vector<Pair>> rows;
    };
    constexpr size_t kMostPairs = 1 << 20;
    thread_local Kept kept;
    if (kept.reference != number_ || kept.of_query != of_query || kept.pairs > kMostPairs)
      kept = {number_, of_query, 0, {}};
    const auto [at, is_new] = kept.rows.try_emplace(row);
    std::vector<Pair>& pairs = at->second;
    if (!is_new) return pairs;
    if (of_query)
      for (size_t j = 0; j < keys_; ++j) pairs.push_back(pair(row / queries_, row % queries_, j));
    else
      for (size_t h = 0; h < group_; ++h)
        for (size_t i = 0; i < queries_; ++i) pairs.push_back(pair(row / keys_ * group_ + h, i, row % keys_));
    kept.pairs += pairs.size();
    return pairs;
  }

  const command::Tensor &q_, &k_, &v_, &grad_, &numbers_;
  AttentionGradientRule rule_;
  size_t depth_, columns_, queries_, keys_, group_, block_, blocks_;
  static inline std::atomic<uint64_t> count_ = 0;
  const uint64_t number_ =
      ++count_;  // identifies this object, since a later object may have the same address
};

}  // namespace ptxbuilder::kernels
