// Computes the expected O and lse of attention in float64.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>

#include "kernels/attention/family.h"

namespace ptxbuilder::kernels {

// A sequence, described by the ranges of rows of Q and of K that belong to it in all heads of a batch.
struct AttentionSequence {
  size_t batch, queries, keys, first_query = 0, first_key = 0;
};

// Assigns pages of a cache to batches in a scrambled order. One additional page does not belong to any batch.
class AttentionPages {
 public:
  AttentionPages(const std::vector<AttentionSequence>& sequences, const command::Fields& f)
      : is_permuted_(f["page"] != 0),
        page_(static_cast<size_t>(f[is_permuted_ ? "page" : "keys"])),
        each_((static_cast<size_t>(f["keys"]) + page_ - 1) / page_),
        count_(each_ * sequences.size() + is_permuted_) {}

  size_t rows() const { return page_; }
  size_t count() const { return count_; }
  size_t of_batch() const { return each_; }
  size_t page(size_t batch, size_t number) const {
    const size_t at = batch * each_ + number, all = count_ - 1;
    if (!is_permuted_) return at;
    size_t step = all / 2 + 1;
    while (std::gcd(step, all) != 1) ++step;
    return 1 + at * step % all;  // page 0 does not belong to any batch
  }

 private:
  bool is_permuted_;
  size_t page_, each_, count_;
};

// Returns the mask of a query in a tree. Its bits are arbitrary.
inline uint32_t tree_mask_of(const AttentionSequence& s, size_t query) {
  const auto number = static_cast<uint32_t>(s.batch + s.first_query + query + 1);
  return number * 0x9e3779b9U ^ number * 0x85ebca6bU >> 13;
}

// The tensors of a call. Scales are for each head of K and V, or for each head of each page.
struct AttentionTensors {
  const command::Tensor &q, &k, &v, &k_scale, &v_scale, &q_scale;
};

// Computes expected elements of O and lse.
class AttentionReference {
 public:
  AttentionReference(const AttentionTensors& tensors, DType output_type,
                     std::vector<AttentionSequence> sequences, const AttentionPages& pages,
                     const command::Fields& f, double scale, const command::Tensor* sinks,
                     DropoutRule dropout)
      : q_(tensors.q),
        k_(tensors.k),
        v_(tensors.v),
        k_scale_(tensors.k_scale),
        v_scale_(tensors.v_scale),
        q_scale_(tensors.q_scale),
        output_type_(output_type),
        sequences_(std::move(sequences)),
        pages_(pages),
        is_causal_(f["causal"] != 0),
        is_tree_(f["tree"] != 0),
        promotes_(f["promote"] != 0),
        has_page_scales_(f["page_scales"] != 0),
        packs_keys_(f["packed"] != 0 && f["lengths"] == 0),
        window_(f["window"]),
        softcap_(static_cast<double>(f["softcap"])),
        scale_(scale),
        sinks_(sinks),
        dropout_(dropout),
        heads_in_rows_(static_cast<size_t>(f["heads_in_rows"])),
        rows_(heads_in_rows_ * q_.shape()[q_.shape().size() - 3]) {}

  // Returns the range [first, second) of keys that a query sees, apart from the mask of a tree. The last
  // query sees the last key.
  std::pair<int64_t, int64_t> seen(const AttentionSequence& s, size_t query) const {
    const auto keys = static_cast<int64_t>(s.keys),
               last = static_cast<int64_t>(query) + keys - static_cast<int64_t>(s.queries);
    const int64_t end = is_causal_ ? std::clamp<int64_t>(last + 1, 0, keys) : keys;
    const int64_t first = window_ ? std::clamp<int64_t>(last + 1 - window_, 0, end) : 0;
    return {first, end};
  }
  bool is_hidden(const AttentionSequence& s, size_t query, int64_t key) const {
    const int64_t bit = key - static_cast<int64_t>(s.keys) + static_cast<int64_t>(s.queries);
    return is_tree_ && bit >= 0 && (tree_mask_of(s, query) >> bit & 1) == 0;
  }

  // Returns element `i` of O. The tolerance covers rounding weights to the type of Q, rounding O, and the
  // error of scores and of exp2 in f32.
  command::Expected output(size_t i) const {
    const size_t columns = v_.shape()[0];
    const Row& r = row(i / columns);
    double sum = 0, magnitude = 0, squares = 0, values = 0;
    for (size_t j = 0; j < r.weights.size(); ++j) {
      const double value = scaled(v_, v_scale_, r.places[j], i % columns), term = r.weights[j] * value;
      sum += term, magnitude += std::abs(term), squares += term * term;
      if (r.weights[j] != 0) values += std::abs(value);
    }
    // Half of the smallest positive number of the weights' type. In e4m3, weights have been multiplied by 2^4
    // or more (softmax.h).
    const double least = q_.dtype() == DType::f16    ? 0x1p-25 * r.greatest_weight
                         : q_.dtype() == DType::e4m3 ? 0x1p-14 * r.greatest_weight
                                                     : 0;
    // The rounding errors of many e4m3 weights partly cancel, so that their sum is bounded by 4 times the
    // root of the sum of squares, which is 7 standard deviations.
    const double rounded =
        q_.dtype() == DType::e4m3 ? std::min(magnitude, 4 * std::sqrt(squares)) : magnitude;
    return {sum, unit_roundoff(output_type_) * std::abs(sum) * 1.01 + unit_roundoff(q_.dtype()) * rounded +
                     magnitude * (4 * r.score_error + lost_of_sums()) + least * values + 0x1p-24};
  }
  // Returns element `i` of lse, where `i` counts the queries of all heads, head by head.
  command::Expected log_sum(size_t i) const {
    const size_t queries = rows_ / heads_in_rows_, head = i / queries;
    const Row& r = row(head / heads_in_rows_ * rows_ + i % queries * heads_in_rows_ + head % heads_in_rows_);
    return {r.log_sum, 2 * r.score_error + 1e-5 * (1 + std::abs(r.log_sum))};
  }

 private:
  // Returns the share of the sum of magnitudes that the tensor core may lose. Sums of e4m3 products have
  // about 14 bits (see lost_share() in kernels/gemm/reference.h).
  double lost_of_sums() const {
    if (q_.dtype() != DType::e4m3) return 1e-5;
    return promotes_ ? 0x1p-12 : 0x1p-10;
  }
  // Returns an element of K or V times its scale. With scales of pages, the product is rounded to the type of
  // Q.
  double scaled(const command::Tensor& t, const command::Tensor& scales, size_t place, size_t column) const {
    const double element = t[place * t.shape()[0] + column];
    const size_t heads = t.shape()[2], head = place / t.shape()[1] % heads;
    if (!has_page_scales_) return element * scales[head];
    const double scale = scales[place / pages_.rows() / heads * heads + head];
    const auto product = static_cast<double>(static_cast<float>(element) * static_cast<float>(scale));
    return decode(q_.dtype(), encode(q_.dtype(), product));
  }
  // The results for a query of a head. These are its weight for each key that it sees, the rows of K and V
  // that hold these keys, a bound for the error of its scores in f32, and the logarithm of the sum that
  // normalizes its weights.
  struct Row {
    std::vector<double> weights;
    std::vector<size_t> places;
    double score_error = 0, log_sum = -INFINITY;
    double greatest_weight = 0;  // largest weight that a score can have; kernels round weights relative to it
  };
  // Returns the results for row `i` of Q in memory order. Each thread requests the elements of O one after
  // the other, so each caches the row that it computed last.
  const Row& row(size_t i) const {
    struct Kept {
      uint64_t reference = 0;
      size_t i = 0;
      Row row;
    };
    thread_local Kept kept;
    if (kept.reference != number_ || kept.i != i) kept = {number_, i, computed_row(i)};
    return kept.row;
  }
  Row computed_row(size_t i) const {
    const size_t depth = q_.shape()[0], heads = q_.shape()[q_.shape().size() - 2];
    const size_t head = i / rows_ % heads, batch = i / rows_ / heads, query = i % rows_ / heads_in_rows_;
    const AttentionSequence* s = &sequences_.back();
    for (const AttentionSequence& one : sequences_)
      if (one.batch == batch && query - one.first_query < one.queries) s = &one;
    const auto [first, end] = seen(*s, query - s->first_query);
    Row out;
    const size_t key_heads = k_.shape()[2], key_head = head / (heads / key_heads);
    const auto place = [&](size_t key) {
      if (packs_keys_) return key_head * k_.shape()[1] + s->first_key + key;
      const size_t page = pages_.page(static_cast<size_t>(s - sequences_.data()), key / pages_.rows());
      return (page * key_heads + key_head) * pages_.rows() + key % pages_.rows();
    };
    double most = -INFINITY;
    for (int64_t j = 0; j < end - first; ++j) {
      double score = 0, magnitude = 0;
      out.places.push_back(place(static_cast<size_t>(first + j)));
      for (size_t l = 0; l < depth; ++l) {
        const double product =
            q_[i * depth + l] * q_scale_[key_head] * scaled(k_, k_scale_, out.places.back(), l);
        score += product, magnitude += std::abs(product);
      }
      score *= scale_;
      double error = (q_.dtype() == DType::e4m3 ? 0x1p-12 : 0x1p-20) * scale_ * magnitude;
      if (softcap_ > 0) score = softcap_ * std::tanh(score / softcap_), error += 0x1p-10 * std::abs(score);
      if (is_hidden(*s, query - s->first_query, first + j)) score = -INFINITY;
      out.weights.push_back(score);
      out.score_error = std::max(out.score_error, error);
      most = std::max(most, score);
    }
    const size_t all_heads = heads * heads_in_rows_,
                 own_head = (head * heads_in_rows_ + i % heads_in_rows_) % all_heads;
    const double sink = sinks_ ? (*sinks_)[own_head] : -INFINITY;
    most = std::max(most, sink);
    double sum = std::isinf(sink) ? 0 : std::exp(sink - most);
    for (double& w : out.weights) sum += w = std::isinf(w) ? 0 : std::exp(w - most);
    const auto sequence = static_cast<size_t>(s - sequences_.data());
    for (size_t j = 0; j < out.weights.size(); ++j)
      out.weights[j] *=
          dropout_.factor(sequence, own_head, query - s->first_query, static_cast<size_t>(first) + j) / sum;
    if (sum > 0) out.log_sum = most + std::log(sum), out.greatest_weight = dropout_.greatest_factor() / sum;
    return out;
  }

  const command::Tensor &q_, &k_, &v_, &k_scale_, &v_scale_, &q_scale_;
  DType output_type_;
  std::vector<AttentionSequence> sequences_;
  AttentionPages pages_;
  bool is_causal_, is_tree_, promotes_, has_page_scales_, packs_keys_;
  int64_t window_;
  double softcap_, scale_;
  const command::Tensor* sinks_;  // a sink for each head; null if there are none
  DropoutRule dropout_;
  size_t heads_in_rows_,
      rows_;  // number of heads that are rows, and number of rows in a head of Q or in a group of such heads
  static inline std::atomic<uint64_t> count_ = 0;
  const uint64_t number_ =
      ++count_;  // identifies this object, since a later object may have the same address
};

}  // namespace ptxbuilder::kernels
