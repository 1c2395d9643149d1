// Trials that tests of attention over caches share. Each call is compared with float64 on poisoned memory,
// and a second run must produce the same bits.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <span>

#include "attention_kit.h"
#include "kernels/attention/attention.h"
#include "options.h"
#include "runtime/emulator/emulator.h"
#include "runtime/open_device.h"

namespace ptxbuilder::test {

// Returns the device that the tests of caches share, which --device names.
inline runtime::Device& cache_device() {
  static const std::unique_ptr<runtime::Device> device = runtime::open_device(device_name);
  return *device;
}

// `lengths` has an entry of at most p.keys for each batch. p.page is 0 for contiguous caches.
struct CacheCase {
  kernels::AttentionArguments p;
  std::vector<int64_t> lengths;
  uint64_t data = 1;
  bool has_sinks = false;
  bool has_lengths = true;  // false if all lengths are p.keys
  std::vector<int64_t> query_counts =
      {};  // numbers of packed queries, at most p.queries each; empty if queries are not packed
  std::vector<float> k_scale = {}, v_scale = {};  // scales of K and V in e4m3; empty if there are none
  int64_t scales_of_page = 0;                     // 1 or p.key_heads scales in each page
  bool has_tree = false;                          // the queries are a tree of tokens
  int64_t gap = 0;                                // elements between a row of K and V and the next
};

inline std::string text(const CacheCase& c) {
  const kernels::AttentionArguments& p = c.p;
  return fmt::format(
      "{} and {} heads {} on {} queries {} keys {} depth {} {} page {} causal {} left {} softcap {} sinks {} "
      "scales {} scales of page {} lengths {} packed {} tree {}",
      name(p.type), name(p.key_type()), p.heads, p.key_heads, p.queries, p.keys, p.depth, p.value_depth,
      p.page, p.causal, p.left, p.softcap, c.has_sinks, fmt::join(c.k_scale, ","), c.scales_of_page,
      fmt::join(c.lengths, ","), fmt::join(c.query_counts, ","), c.has_tree);
}

// A case in memory.
class CacheTrial {
 public:
  CacheTrial(runtime::Device& device, const CacheCase& the_case)
      : c_(the_case),
        device_(device),
        columns_(c_.p.value_depth != 0 ? c_.p.value_depth : c_.p.depth),
        batches_(static_cast<int64_t>(c_.lengths.size())),
        rows_(c_.p.page > 0 ? c_.p.page : c_.p.keys),
        of_batch_(c_.p.page > 0 ? (c_.p.keys + c_.p.page - 1) / c_.p.page : 1),
        table_stride_(of_batch_ + (c_.data % 2 == 0 ? 3 : 0)),
        pieces_(of_batch_ * batches_ + (c_.p.page > 0 ? 3 : 0)),
        more_(device_, c_.has_sinks, 0, c_.p.heads, c_.data),
        random_(c_.data) {
    kernels::AttentionArguments& p = c_.p;
    p.batches = batches_;
    more_.give(p);
    // K and V of a key are adjacent.
    const int64_t row = c_.gap + (p.has_byte_rows() ? int64_t{LatentRow::kBytes}
                                                    : p.key_heads * (p.depth + (is_latent() ? 0 : columns_)));
    cache_.resize(static_cast<size_t>(pieces_ * rows_ * row));
    p.k.row_stride = p.v.row_stride = row;
    p.k.head_stride = p.depth, p.v.head_stride = columns_;
    p.k.batch_stride = p.v.batch_stride = rows_ * row;
    const size_t element = static_cast<size_t>(size_of(p.key_type()));
    cache_memory_ = runtime::Buffer(device_, cache_.size() * element);
    p.k.memory = cache_memory_;
    const auto of_keys = static_cast<size_t>(p.key_heads * p.depth) * element;
    if (!is_latent()) p.v.memory = cache_memory_.part(of_keys, cache_memory_.bytes() - of_keys);
    if (p.page > 0) p.pages = pieces_;
    std::vector<uint32_t> offsets = {0};
    for (const int64_t queries : c_.query_counts)
      offsets.push_back(offsets.back() + static_cast<uint32_t>(queries));
    query_rows_ = is_packed() ? int64_t{offsets.back()} : batches_ * p.queries;
    offsets_memory_ = runtime::Buffer::of(device_, offsets);
    if (is_packed()) p.query_offsets = offsets_memory_, p.query_rows = query_rows_;
    q_ = normal(static_cast<size_t>(query_rows_ * p.heads * p.depth));
    q_memory_ = runtime::Buffer::of(device_, q_);
    p.q.memory = q_memory_;
    o_memory_ = runtime::Buffer(device_, static_cast<size_t>(query_rows_ * p.heads * columns_) * 2);
    p.o.memory = o_memory_;
    lse_memory_ = runtime::Buffer(device_, static_cast<size_t>(query_rows_ * p.heads) * 4);
    p.lse = lse_memory_;
    std::uniform_real_distribution<float> any_scale(0.2F, 2);
    for (int64_t i = 0; i < c_.scales_of_page * pieces_; ++i)
      c_.k_scale.push_back(any_scale(random_)), c_.v_scale.push_back(any_scale(random_));
    p.page_scales = c_.scales_of_page > 0;
    if (!c_.k_scale.empty()) {
      p.k_scale = k_scale_memory_ = runtime::Buffer::of(device_, c_.k_scale);
      p.v_scale = v_scale_memory_ = runtime::Buffer::of(device_, c_.v_scale);
      p.scales = p.page_scales ? c_.scales_of_page : static_cast<int64_t>(c_.k_scale.size());
    }
    // The bits of a tree are arbitrary. They may include missing keys and, sometimes, no key at all.
    for (int64_t i = 0; i < query_rows_; ++i)
      tree_.push_back(random_() % 8 == 0 ? 0 : static_cast<uint32_t>(random_()));
    tree_memory_ = runtime::Buffer::of(device_, tree_);
    if (c_.has_tree) p.tree_mask = tree_memory_;
    lengths_memory_ = runtime::Buffer(device_, c_.lengths.size() * 4);
    if (c_.has_lengths) p.key_lengths = lengths_memory_;
    table_.resize(static_cast<size_t>(table_stride_ * batches_), 0xffffffff);
    table_memory_ = runtime::Buffer(device_, table_.size() * 4);
    if (p.page > 0) p.block_table = table_memory_;
    if (table_stride_ != of_batch_) p.table_stride = table_stride_;
    lay(c_.lengths);
  }

  runtime::Device& device() const { return device_; }
  const kernels::AttentionArguments& arguments() const { return c_.p; }

  // Makes the first head of a batch's first query NaN.
  void poison_query(int64_t batch) {
    q_[static_cast<size_t>(query_row(batch, 0) * c_.p.heads * c_.p.depth)] = 0x7fff;
    q_memory_.copy_in(std::as_bytes(std::span(q_)));
  }

  // Sets new lengths and new pages, keys and values. Rows that belong to no batch are NaN.
  void lay(const std::vector<int64_t>& lengths) {
    c_.lengths = lengths;
    const kernels::AttentionArguments& p = c_.p;
    std::vector<uint32_t> all(static_cast<size_t>(pieces_));
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint32_t>(i);
    if (p.page > 0) std::shuffle(all.begin(), all.end(), random_);
    for (int64_t b = 0; b < batches_; ++b)
      std::copy_n(all.begin() + b * of_batch_, of_batch_, table_.begin() + b * table_stride_);
    std::ranges::fill(cache_, uint16_t{0x7fff});  // NaN, even in its low byte
    std::normal_distribution<double> normal;
    for (int64_t b = 0; b < batches_; ++b)
      for (int64_t key = 0; key < lengths[static_cast<size_t>(b)]; ++key)
        if (p.has_byte_rows())
          write_byte_row(place(b, key));
        else
          for (int64_t i = 0; i < p.k.row_stride - c_.gap; ++i)
            cache_[place(b, key) + static_cast<size_t>(i)] =
                static_cast<uint16_t>(encode(p.key_type(), normal(random_)));
    const std::vector<uint8_t> bytes(cache_.begin(), cache_.end());
    cache_memory_.copy_in(p.key_type() == DType::e4m3 ? std::as_bytes(std::span(bytes))
                                                      : std::as_bytes(std::span(cache_)));
    table_memory_.copy_in(std::as_bytes(std::span(table_)));
    std::vector<uint32_t> numbers(lengths.begin(), lengths.end());
    lengths_memory_.copy_in(std::as_bytes(std::span(numbers)));
  }

  std::vector<std::byte> run(kernels::Attention& attention) {
    o_memory_.fill(0xff);
    lse_memory_.fill(0xff);
    kernels::AttentionArguments p = c_.p;
    runtime::Buffer workspace(device_, std::max<size_t>(attention.workspace_bytes(p), 16));
    workspace.fill(0xff);
    p.workspace = workspace;
    attention(p);
    device_.synchronize();
    std::vector<std::byte> all(o_memory_.bytes() + lse_memory_.bytes());
    o_memory_.copy_out(std::span(all).first(o_memory_.bytes()));
    lse_memory_.copy_out(std::span(all).subspan(o_memory_.bytes()));
    return all;
  }

  // Returns "" if O and lse are right, and a message otherwise.
  std::string wrong(const std::vector<std::byte>& got) const {
    const kernels::AttentionArguments& p = c_.p;
    for (int64_t b = 0; b < batches_; ++b)
      for (int64_t i = 0; i < queries_of(b); ++i)
        for (int64_t h = 0; h < p.heads; ++h) {
          const Row row = expected(b, i, h);
          for (int64_t column = 0; column < columns_; ++column) {
            uint16_t bits = 0;
            std::memcpy(&bits, got.data() + ((query_row(b, i) * p.heads + h) * columns_ + column) * 2, 2);
            const double value = decode(p.type, bits), e = row.values[static_cast<size_t>(column)];
            const double u = unit_roundoff(p.type),
                         most = u * std::abs(e) * 1.01 +
                                row.magnitudes[static_cast<size_t>(column)] * (u + 4 * row.error + 1e-5) +
                                row.errors[static_cast<size_t>(column)] + 0x1p-24;
            if (!(std::isnan(e) ? std::isnan(value) : std::abs(value - e) <= most))
              return fmt::format("O of batch {}, query {}, head {}, column {}: {} is not {} (within {})", b,
                                 i, h, column, value, e, most);
          }
          float log_sum = 0;
          const int64_t of_lse =
              is_packed() ? h * query_rows_ + query_row(b, i) : (b * p.heads + h) * p.queries + i;
          std::memcpy(&log_sum, got.data() + o_memory_.bytes() + of_lse * 4, 4);
          const auto l = static_cast<double>(log_sum);
          if (!(l == row.log_sum || (std::isnan(row.log_sum) && std::isnan(l)) ||
                std::abs(l - row.log_sum) <= 2 * row.error + 1e-5 * (1 + std::abs(row.log_sum))))
            return fmt::format("lse of batch {}, head {}, query {}: {} is not {}", b, h, i, l, row.log_sum);
        }
    return "";
  }

 private:
  using LatentRow = kernels::LatentRow;
  struct Row {
    std::vector<double> values, magnitudes, errors;
    double error = 0, log_sum = -INFINITY;
  };

  // Returns whether the values are the first columns of the keys, which are too wide for separate values.
  bool is_latent() const { return c_.p.depth > kernels::AttentionOperation::kMostColumns; }
  bool is_packed() const { return !c_.query_counts.empty(); }
  int64_t queries_of(int64_t batch) const {
    return is_packed() ? c_.query_counts[static_cast<size_t>(batch)] : c_.p.queries;
  }
  // Returns the row of a query among those of all batches.
  int64_t query_row(int64_t batch, int64_t query) const {
    for (int64_t b = 0; b < batch; ++b) query += queries_of(b);
    return query;
  }
  std::vector<uint16_t> normal(size_t elements) {
    std::vector<uint16_t> all(elements);
    std::normal_distribution<double> normal;
    for (uint16_t& x : all) x = static_cast<uint16_t>(encode(c_.p.type, normal(random_)));
    return all;
  }
  int64_t piece(int64_t batch, int64_t key) const {
    return c_.p.page > 0 ? int64_t{table_[static_cast<size_t>(batch * table_stride_ + key / rows_)]} : batch;
  }
  size_t place(int64_t batch, int64_t key) const {
    return static_cast<size_t>((piece(batch, key) * rows_ + key % rows_) * c_.p.k.row_stride);
  }

  // Returns whether a query's mask hides one of the last keys, which belong to the queries themselves.
  bool is_hidden(int64_t batch, int64_t query, int64_t key) const {
    const int64_t bit = key - c_.lengths[static_cast<size_t>(batch)] + queries_of(batch);
    return c_.has_tree && bit >= 0 && (tree_[static_cast<size_t>(query_row(batch, query))] >> bit & 1) == 0;
  }

  // Each element of the cache is one byte of `bits`.
  void put(size_t at, uint64_t bits, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) cache_[at + i] = static_cast<uint16_t>(bits >> 8 * i & 0xff);
  }
  uint32_t get(size_t at, size_t bytes) const {
    uint32_t bits = 0;
    for (size_t i = 0; i < bytes; ++i) bits |= uint32_t{cache_[at + i]} << 8 * i;
    return bits;
  }
  void write_byte_row(size_t at) {
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<float> any_scale(0.2F, 2);
    for (size_t i = 0; i < size_t{LatentRow::kValues}; ++i)
      put(at + i, encode(DType::e4m3, normal(random_)), 1);
    for (size_t i = 0; i < size_t{LatentRow::kScales}; ++i)
      put(at + LatentRow::kScalesByte + 4 * i, std::bit_cast<uint32_t>(any_scale(random_)), 4);
    for (size_t i = 0; i < size_t{LatentRow::kRotary}; ++i)
      put(at + LatentRow::kRotaryByte + 2 * i, encode(DType::bf16, normal(random_)), 2);
  }
  double element_of_byte_row(size_t row, size_t column) const {
    if (column >= size_t{LatentRow::kValues})
      return decode(DType::bf16,
                    get(row + LatentRow::kRotaryByte + 2 * (column - size_t{LatentRow::kValues}), 2));
    const auto scale = std::bit_cast<float>(
        get(row + LatentRow::kScalesByte + 4 * (column / size_t{LatentRow::kScaled}), 4));
    const float value = static_cast<float>(decode(DType::e4m3, get(row + column, 1)));
    return decode(DType::bf16, encode(DType::bf16, static_cast<double>(value * scale)));
  }

  static double scale_of(const std::vector<float>& scales, int64_t head) {
    if (scales.empty()) return 1;
    return static_cast<double>(scales.size() == 1 ? scales[0] : scales[static_cast<size_t>(head)]);
  }
  // Returns an element of a key's row times its scale. The scale of a page is applied before elements are
  // rounded to the type of Q.
  double element(int64_t batch, int64_t key, int64_t at, const std::vector<float>& scales,
                 int64_t head) const {
    if (c_.p.has_byte_rows()) return element_of_byte_row(place(batch, key), static_cast<size_t>(at));
    const double own = decode(c_.p.key_type(), cache_[place(batch, key) + static_cast<size_t>(at)]);
    if (c_.scales_of_page == 0) return own * scale_of(scales, head);
    const int64_t i = piece(batch, key) * c_.scales_of_page + std::min(head, c_.scales_of_page - 1);
    const auto product = static_cast<double>(static_cast<float>(own) * scales[static_cast<size_t>(i)]);
    return decode(c_.p.type, encode(c_.p.type, product));
  }

  Row expected(int64_t b, int64_t i, int64_t h) const {
    const kernels::AttentionArguments& p = c_.p;
    const int64_t keys = c_.lengths[static_cast<size_t>(b)], own = i + keys - queries_of(b),
                  shared = h / (p.heads / p.key_heads);
    const size_t q = static_cast<size_t>((query_row(b, i) * p.heads + h) * p.depth);
    Row row = {std::vector<double>(static_cast<size_t>(columns_)),
               std::vector<double>(static_cast<size_t>(columns_)),
               std::vector<double>(static_cast<size_t>(columns_))};
    const double scale =
                     p.scale > 0 ? static_cast<double>(p.scale) : 1 / std::sqrt(static_cast<double>(p.depth)),
                 cap = static_cast<double>(p.softcap);
    std::vector<std::pair<int64_t, double>> scores;
    if (c_.scales_of_page == 0 && scale_of(c_.k_scale, shared) < 0)
      scores.emplace_back(0, NAN);  // such a scale makes all rows NaN
    for (int64_t j = 0; j < keys; ++j) {
      if ((p.causal && j > own) || (p.left >= 0 && j < own - p.left) || is_hidden(b, i, j)) continue;
      double score = 0, magnitude = 0;
      for (int64_t l = 0; l < p.depth; ++l) {
        const double term = decode(p.type, q_[q + static_cast<size_t>(l)]) *
                            element(b, j, shared * p.depth + l, c_.k_scale, shared);
        score += term, magnitude += std::abs(term);
      }
      score *= scale;
      double error = 0x1p-20 * scale * magnitude;
      if (cap > 0) score = cap * std::tanh(score / cap), error += 0x1p-10 * cap;
      row.error = std::max(row.error, error);
      scores.emplace_back(j, score);
    }
    if (std::ranges::any_of(scores, [](const auto& one) { return std::isnan(one.second); })) {
      std::ranges::fill(row.values, NAN);
      row.log_sum = NAN;
      return row;
    }
    double most = more_.sink(h);
    for (const auto& [key, score] : scores) most = std::max(most, score);
    if (std::isinf(most)) return row;
    double sum = std::exp(more_.sink(h) - most);
    for (auto& [key, score] : scores) sum += score = std::exp(score - most);
    const int64_t of_values = is_latent() ? 0 : p.key_heads * p.depth + shared * columns_;
    for (const auto& [key, weight] : scores)
      for (int64_t column = 0; column < columns_; ++column) {
        const double v = element(b, key, of_values + column, c_.v_scale, shared);
        const auto at = static_cast<size_t>(column);
        if (p.type == DType::f16) row.errors[at] += 0x1p-25 / sum * std::abs(v);
        row.values[at] += weight / sum * v;
        row.magnitudes[at] += std::abs(weight / sum * v);
      }
    row.log_sum = most + std::log(sum);
    return row;
  }

  CacheCase c_;
  runtime::Device& device_;
  int64_t query_rows_ = 0, columns_, batches_, rows_, of_batch_, table_stride_,
          pieces_;  // rows of a piece of K and V, and number of pieces
  SinksAndDropout more_;
  std::mt19937_64 random_;
  std::vector<uint16_t> q_, cache_;
  std::vector<uint32_t> table_, tree_;
  runtime::Buffer q_memory_, cache_memory_, o_memory_, lse_memory_, lengths_memory_, table_memory_,
      k_scale_memory_, v_scale_memory_, offsets_memory_, tree_memory_;
};

// Runs a trial twice, with different orders of the emulator's threads.
inline void check_trial(CacheTrial& trial, kernels::Attention& attention, uint64_t data) {
  auto* emulator = dynamic_cast<runtime::Emulator*>(&trial.device());
  if (emulator) emulator->seed(2 * data);
  const std::vector<std::byte> first = trial.run(attention);
  const std::string problem = trial.wrong(first);
  CHECK_MESSAGE(problem.empty(), problem);
  if (emulator) emulator->seed(2 * data + 1);
  CHECK_MESSAGE(trial.run(attention) == first, "a second run produces different bits");
}

}  // namespace ptxbuilder::test
