// Calls attention with random operands, and compares it with float64 on poisoned memory. Tests of attention
// share these classes.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <span>

#include "attention_kit.h"
#include "kernels/attention/attention.h"

namespace ptxbuilder::test::attention_trial {
using kernels::Attention;
using kernels::AttentionArguments;
using kernels::AttentionOperation;
using kernels::AttentionSize;
using kernels::AttentionTile;
using kernels::DeviceHeads;

// The description of a test case: a call's arguments without memory, the layout of the tensors, and the
// lengths of sequences.
struct Case {
  AttentionArguments p;
  enum class Lie : uint8_t { rows_first, heads_first, apart, odd } lie = Lie::rows_first;
  std::vector<std::pair<int64_t, int64_t>>
      sequences;  // queries and keys of each sequence; empty if not packed
  uint64_t data = 1;
  bool has_sinks = false;
  float dropout = 0;
  // Q, K and V are e4m3. The vectors hold the scales of each tensor, or are empty.
  bool e4m3 = false;
  std::vector<float> q_scale = {}, k_scale = {}, v_scale = {};

  DType product_type() const { return e4m3 ? DType::e4m3 : p.type; }
};

inline std::string text(const Case& c) {
  const AttentionArguments& p = c.p;
  std::string all = fmt::format(
      "{} batches {} heads {} on {} queries {} keys {} depth {} {} scale {} causal {} top_left {} left {} "
      "right {} "
      "softcap {} lse {} lie {} sinks {} dropout {} e4m3 {} scales {} promote {}",
      name(p.type), p.batches, p.heads, p.key_heads, p.queries, p.keys, p.depth, p.value_depth, p.scale,
      p.causal, p.top_left, p.left, p.right, p.softcap, p.lse.bytes, static_cast<int>(c.lie), c.has_sinks,
      c.dropout, c.e4m3, fmt::join(c.k_scale, ","), p.promote);
  for (const auto& [q, k] : c.sequences) all += fmt::format(" {}x{}", q, k);
  return all;
}

// A tensor with its gaps, on the host and on the device.
struct Tensor {
  Tensor(const Case& c, DType the_type, int64_t the_columns, int64_t the_rows, int64_t the_heads,
         int64_t the_batches)
      : type(the_type), columns(the_columns), rows(the_rows), heads(the_heads), batches(the_batches) {
    const int64_t gap = c.lie == Case::Lie::apart ? 8 : c.lie == Case::Lie::odd ? 3 : 0;
    first = c.lie == Case::Lie::odd ? 1 : c.lie == Case::Lie::apart ? 16 : 0;
    if (c.lie == Case::Lie::heads_first) {
      at.row_stride = columns;
      at.head_stride = rows * columns;
      at.batch_stride = heads * at.head_stride;
    } else {
      at.head_stride = columns + gap;
      at.row_stride = heads * at.head_stride + gap;
      at.batch_stride = rows * at.row_stride + gap;
    }
    const int64_t last =
        (batches - 1) * at.batch_stride + (rows - 1) * at.row_stride + (heads - 1) * at.head_stride + columns;
    bits.assign(static_cast<size_t>(first + (is_empty() ? 0 : last) + 64), 0);
  }

  bool is_empty() const { return columns == 0 || rows == 0 || heads == 0 || batches == 0; }
  size_t index(int64_t batch, int64_t row, int64_t head, int64_t column) const {
    return static_cast<size_t>(first + batch * at.batch_stride + row * at.row_stride + head * at.head_stride +
                               column);
  }
  void fill(std::mt19937_64& random) {
    std::normal_distribution<double> normal;
    values.clear();
    for (uint16_t& b : bits) {
      b = static_cast<uint16_t>(encode(type, normal(random)));
      values.push_back(decode(type, b));
    }
  }
  DeviceHeads to_device(runtime::Device& device) {
    const std::vector<uint8_t> bytes(bits.begin(), bits.end());
    buffer = size_of(type) == 1 ? runtime::Buffer::of(device, bytes) : runtime::Buffer::of(device, bits);
    const auto skipped = static_cast<size_t>(first * size_of(type));
    at.memory = buffer.part(skipped, buffer.bytes() - skipped);
    return at;
  }

  DType type;
  int64_t columns, rows, heads, batches, first = 0;
  DeviceHeads at;
  std::vector<uint16_t> bits;  // holds elements of 8 bits too
  std::vector<double> values;  // the decoded bits, once they are filled in
  runtime::Buffer buffer;
};

class Trial {
 public:
  Trial(runtime::Device& device, Case the_case)
      : device_(device),
        c_(std::move(the_case)),
        columns_(c_.p.value_depth != 0 ? c_.p.value_depth : c_.p.depth),
        key_heads_(c_.p.key_heads != 0 ? c_.p.key_heads : c_.p.heads),
        packed_(!c_.sequences.empty()),
        query_rows_(packed_ ? 0 : c_.p.queries),
        key_rows_(packed_ ? 0 : c_.p.keys),
        more_(device, c_.has_sinks, c_.dropout, c_.p.heads, c_.data) {
    more_.give(c_.p);
    std::vector<uint32_t> query_offsets = {0}, key_offsets = {0};
    for (const auto& [queries, keys] : c_.sequences) {
      query_rows_ += queries, key_rows_ += keys;
      c_.p.queries = std::max(c_.p.queries, queries), c_.p.keys = std::max(c_.p.keys, keys);
      query_offsets.push_back(static_cast<uint32_t>(query_rows_));
      key_offsets.push_back(static_cast<uint32_t>(key_rows_));
    }
    const int64_t batches = packed_ ? 1 : c_.p.batches;
    const DType type = c_.product_type();
    if (c_.e4m3) c_.p.query_type = c_.p.cache_type = type;
    q_.emplace(c_, type, c_.p.depth, query_rows_, c_.p.heads, batches);
    k_.emplace(c_, type, c_.p.depth, key_rows_, key_heads_, batches);
    v_.emplace(c_, type, columns_, key_rows_, key_heads_, batches);
    o_.emplace(c_, c_.p.type, columns_, query_rows_, c_.p.heads, batches);
    std::mt19937_64 random(c_.data);
    for (Tensor* t : {&*q_, &*k_, &*v_}) t->fill(random);
    c_.p.q = q_->to_device(device_);
    c_.p.k = k_->to_device(device_);
    c_.p.v = v_->to_device(device_);
    std::ranges::fill(o_->bits, uint16_t{0xffff});
    c_.p.o = o_->to_device(device_);
    if (!c_.k_scale.empty()) {
      c_.p.q_scale = q_scale_ = runtime::Buffer::of(device_, c_.q_scale);
      c_.p.k_scale = k_scale_ = runtime::Buffer::of(device_, c_.k_scale);
      c_.p.v_scale = v_scale_ = runtime::Buffer::of(device_, c_.v_scale);
      c_.p.scales = static_cast<int64_t>(c_.k_scale.size());
    }
    lse_ = runtime::Buffer(device_, static_cast<size_t>(c_.p.heads * query_rows_ * batches * 4 + 64));
    if (c_.p.lse.bytes != 0) c_.p.lse = lse_;
    if (!packed_) return;
    c_.p.batches = static_cast<int64_t>(c_.sequences.size());
    c_.p.query_rows = query_rows_, c_.p.key_rows = key_rows_;
    query_offsets_ = runtime::Buffer::of(device_, query_offsets);
    key_offsets_ = runtime::Buffer::of(device_, key_offsets);
    c_.p.query_offsets = query_offsets_, c_.p.key_offsets = key_offsets_;
  }

  const AttentionArguments& arguments() const { return c_.p; }

  // Runs a call, and returns O and lse as bits.
  std::vector<std::byte> run(Attention& attention) {
    poison();
    AttentionArguments p = c_.p;
    runtime::Buffer workspace;
    if (const size_t bytes = attention.workspace_bytes(p); bytes > 0) {
      workspace = runtime::Buffer(device_, bytes);
      workspace.fill(0xff);
      p.workspace = workspace;
    }
    attention(p);
    device_.synchronize();
    std::vector<std::byte> all(o_->buffer.bytes() + lse_.bytes());
    o_->buffer.copy_out(std::span(all).first(o_->buffer.bytes()));
    lse_.copy_out(std::span(all).subspan(o_->buffer.bytes()));
    return all;
  }

  void poison() {
    o_->buffer.fill(0xff);
    lse_.fill(0xff);
  }
  bool is_poisoned() {
    device_.synchronize();
    const auto is_poison = [](const auto& all) {
      return std::ranges::all_of(all, [](std::byte b) { return b == std::byte{0xff}; });
    };
    return is_poison(o_->buffer.copy_out<std::byte>()) && is_poison(lse_.copy_out<std::byte>());
  }

  // Returns "" if O and lse are right and nothing else was written.
  std::string wrong(const std::vector<std::byte>& got) {
    std::vector<bool> written(o_->bits.size(), false);
    std::vector<uint16_t> o(o_->bits.size());
    std::memcpy(o.data(), got.data(), o.size() * 2);
    const auto lse = [&](size_t i) {
      float value = 0;
      std::memcpy(&value, got.data() + o.size() * 2 + i * 4, 4);
      return static_cast<double>(value);
    };
    const int64_t batches = packed_ ? 1 : c_.p.batches;
    for (int64_t b = 0; b < batches; ++b)
      for (int64_t h = 0; h < c_.p.heads; ++h) {
        int64_t first_query = 0, first_key = 0;
        const std::vector<std::pair<int64_t, int64_t>> whole = {{query_rows_, key_rows_}};
        int64_t sequence = packed_ ? 0 : b;
        for (const auto& [queries, keys] : packed_ ? c_.sequences : whole) {
          for (int64_t i = 0; i < queries; ++i) {
            const Row row = expected(b, h, first_query + i, i, queries, first_key, keys, sequence);
            for (int64_t column = 0; column < columns_; ++column) {
              const size_t at = o_->index(b, first_query + i, h, column);
              written[at] = true;
              const double value = decode(c_.p.type, o[at]), e = row.values[static_cast<size_t>(column)];
              const auto at_column = static_cast<size_t>(column);
              // The rounding errors of many e4m3 weights partly cancel. 4 times the root of the sum of
              // squares is about 7 standard deviations of their sum.
              const double magnitude = row.magnitudes[at_column],
                           rounded = c_.e4m3 ? std::min(magnitude, 4 * std::sqrt(row.squares[at_column]))
                                             : magnitude;
              const double most =
                  unit_roundoff(c_.p.type) * std::abs(e) * 1.01 + unit_roundoff(c_.product_type()) * rounded +
                  magnitude * (4 * row.error + lost_of_sums()) + row.errors[at_column] + 0x1p-24;
              if (!(std::abs(value - e) <= most))
                return fmt::format("O of batch {}, head {}, query {}, column {}: {} is not {} (within {})", b,
                                   h, first_query + i, column, value, e, most);
            }
            if (c_.p.lse.address == 0) continue;
            const auto at = static_cast<size_t>((b * c_.p.heads + h) * query_rows_ + first_query + i);
            if (!(lse(at) == row.log_sum ||
                  std::abs(lse(at) - row.log_sum) <= 2 * row.error + 1e-5 * (1 + std::abs(row.log_sum))))
              return fmt::format("lse of batch {}, head {}, query {}: {} is not {}", b, h, first_query + i,
                                 lse(at), row.log_sum);
          }
          first_query += queries, first_key += keys, ++sequence;
        }
      }
    for (size_t i = 0; i < o.size(); ++i)
      if (!written[i] && o[i] != 0xffff) return fmt::format("element {} of O's memory was written", i);
    const size_t logarithms =
        c_.p.lse.address == 0 ? 0 : static_cast<size_t>(batches * c_.p.heads * query_rows_);
    for (size_t i = logarithms * 4; i < lse_.bytes(); ++i)
      if (got[o.size() * 2 + i] != std::byte{0xff}) return fmt::format("byte {} after lse was written", i);
    return "";
  }

 private:
  struct Row {
    std::vector<double> values, magnitudes, squares, errors;
    double error = 0, log_sum = -INFINITY;
  };
  // Returns the share of the sums of magnitudes that the tensor core may lose. The tensor core retains about
  // 14 bits in sums of e4m3.
  double lost_of_sums() const { return !c_.e4m3 ? 1e-5 : c_.p.promote > 0 ? 0x1p-12 : 0x1p-10; }
  static double scale_of(const std::vector<float>& scales, int64_t head) {
    if (scales.empty()) return 1;
    return static_cast<double>(scales[scales.size() == 1 ? 0 : static_cast<size_t>(head)]);
  }
  Row expected(int64_t b, int64_t h, int64_t query, int64_t i, int64_t queries, int64_t first_key,
               int64_t keys, int64_t sequence) {
    const AttentionArguments& p = c_.p;
    const int64_t shared = h / (p.heads / key_heads_), offset = p.top_left ? 0 : keys - queries,
                  right = p.causal ? 0 : p.right;
    const auto row_of = [&](const Tensor& t, int64_t row, int64_t head) {
      return std::span(t.values).subspan(t.index(b, row, head, 0), static_cast<size_t>(t.columns));
    };
    const double scale =
        (p.scale > 0 ? static_cast<double>(p.scale) : 1 / std::sqrt(static_cast<double>(p.depth))) *
        scale_of(c_.q_scale, shared) * scale_of(c_.k_scale, shared);
    const auto cap = static_cast<double>(p.softcap);
    const std::vector<double> none(static_cast<size_t>(columns_));
    Row row = {none, none, none, none};
    std::vector<std::pair<int64_t, double>> scores;
    for (int64_t j = 0; j < keys; ++j) {
      if (right >= 0 && j > i + offset + right) continue;
      if (p.left >= 0 && j < i + offset - p.left) continue;
      double score = 0, magnitude = 0;
      const std::span q = row_of(*q_, query, h), k = row_of(*k_, first_key + j, shared);
      for (size_t l = 0; l < q.size(); ++l) {
        const double term = q[l] * k[l];
        score += term, magnitude += std::abs(term);
      }
      score *= scale;
      double error = (c_.e4m3 ? 0x1p-12 : 0x1p-20) * scale * magnitude;
      if (cap > 0) score = cap * std::tanh(score / cap), error += 0x1p-10 * cap;
      row.error = std::max(row.error, error);
      scores.push_back({first_key + j, score});
    }
    double most = more_.sink(h), sum = 0;
    for (const auto& [key, score] : scores) most = std::max(most, score);
    if (std::isinf(most)) return row;
    sum = std::exp(more_.sink(h) - most);
    for (auto& [key, score] : scores) sum += score = std::exp(score - most);
    for (const auto& [key, weight] : scores) {
      const std::span v = row_of(*v_, key, shared);
      for (size_t column = 0; column < v.size(); ++column) {
        const double factor = more_.factor(sequence, h, i, key - first_key),
                     value = v[column] * scale_of(c_.v_scale, shared), term = weight / sum * value * factor;
        // Small weights have an absolute rounding error of half the type's smallest positive number. For f16,
        // this error counts if the largest weights were dropped, or if a sink is the largest weight. For
        // e4m3, weights are first multiplied by at least 2^4.
        const double least = c_.e4m3 ? 0x1p-14 : p.type == DType::f16 ? 0x1p-25 : 0;
        row.errors[column] += least / sum * std::abs(value) * factor;
        row.values[column] += term;
        row.magnitudes[column] += std::abs(term);
        row.squares[column] += term * term;
      }
    }
    row.log_sum = most + std::log(sum);
    return row;
  }

  runtime::Device& device_;
  Case c_;
  int64_t columns_, key_heads_;
  bool packed_;
  int64_t query_rows_, key_rows_;
  SinksAndDropout more_;
  std::optional<Tensor> q_, k_, v_, o_;
  runtime::Buffer lse_, query_offsets_, key_offsets_, q_scale_, k_scale_, v_scale_;
};

// Returns a small tile for the emulator, so that there are several blocks and CTAs.
inline AttentionTile small_tile(const AttentionOperation& o, const AttentionSize& size, int) {
  AttentionTile t = {.consumers = size.queries > 64 ? 2 : 1, .bn = 16};
  t.persistent = size.heads % 2 == 0;
  if (t.persistent) t.bn = 64;  // the smallest value
  if (o.e4m3_products) {
    t.bn = o.value_depth % 64 == 0 && size.keys % 2 == 1 ? 32 : 64;
    t.cache_stages = size.queries % 2 == 0 ? 3 : 2;
  }
  if (t.persistent && size.keys % 3 == 0) t.stages = 3;
  t.turns = t.consumers == 2 && size.keys % 2 == 0;
  t.late_turns = t.turns && size.queries % 2 == 0;
  t.ascending = t.persistent && takes_longest_first(o) && size.queries % 3 == 0;
  t.lazy = size.keys % 5 != 0;
  t.whole_blocks = !o.causal && !o.window && !o.packed && size.keys > 0 && size.keys % t.bn == 0;
  return t;
}

}  // namespace ptxbuilder::test::attention_trial
