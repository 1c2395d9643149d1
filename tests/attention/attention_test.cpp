// Attention, the call of any lengths: masks, heads, sizes from nothing on, placement, packed sequences, what
// it refuses, and random calls. Each is held against float64 on poisoned memory, twice, and gives the same
// bits.
//
//   attention_test [--device=emulator|cuda|auto] [--count=N] [--seed=S] [--only=INDEX] [--every-row]
//
// --only repeats one random call, as the line of a failure says. --every-row takes all sizes under every
// mask.
#include "kernels/attention/attention.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <deque>
#include <fstream>
#include <random>
#include <span>
#include <thread>
#include <tuple>

#include "attention_kit.h"
#include "clocked_device.h"
#include "error_kit.h"
#include "folder_kit.h"
#include "idle_device.h"
#include "options.h"
#include "runtime/emulator/emulator.h"
#include "runtime/open_device.h"
#include "warnings.h"

namespace ptxbuilder::test::attention_test {
using kernels::Attention;
using kernels::AttentionArguments;
using kernels::AttentionOperation;
using kernels::AttentionSize;
using kernels::AttentionTile;
using kernels::DeviceHeads;

namespace {

const size_t& count = test::option<size_t>("count", 24);
const uint64_t& seed = test::option<uint64_t>("seed", 1);
const bool& every_row = test::option("every-row", false);
const int64_t& only = test::option<int64_t>("only", -1);

runtime::Device& device() {
  static const std::unique_ptr<runtime::Device> device = runtime::open_device(device_name);
  return *device;
}
bool large() { return !device().wants_ptx(); }

// This is what a call is asked, on the host: how the tensors lie, and where sequences begin.
struct Case {
  AttentionArguments p;
  enum class Lie : uint8_t { rows_first, heads_first, apart, odd } lie = Lie::rows_first;
  std::vector<std::pair<int64_t, int64_t>> sequences;  // queries and keys of each; empty: not packed
  uint64_t data = 1;
  bool has_sinks = false;
  float dropout = 0;
};

std::string text(const Case& c) {
  const AttentionArguments& p = c.p;
  std::string all = fmt::format(
      "{} batches {} heads {} on {} queries {} keys {} depth {} {} scale {} causal {} top_left {} left {} "
      "right {} "
      "softcap {} lse {} lie {} sinks {} dropout {}",
      name(p.type), p.batches, p.heads, p.key_heads, p.queries, p.keys, p.depth, p.value_depth, p.scale,
      p.causal, p.top_left, p.left, p.right, p.softcap, p.lse.bytes, static_cast<int>(c.lie), c.has_sinks,
      c.dropout);
  for (const auto& [q, k] : c.sequences) all += fmt::format(" {}x{}", q, k);
  return all;
}

// One tensor with its gaps, on the host and on the device.
struct Tensor {
  Tensor(const Case& c, int64_t the_columns, int64_t the_rows, int64_t the_heads, int64_t the_batches)
      : columns(the_columns), rows(the_rows), heads(the_heads), batches(the_batches) {
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
  void fill(DType type, std::mt19937_64& random) {
    std::normal_distribution<double> normal;
    values.clear();
    for (uint16_t& b : bits) {
      b = static_cast<uint16_t>(encode(type, normal(random)));
      values.push_back(decode(type, b));
    }
  }
  DeviceHeads to_device() {
    buffer = runtime::Buffer::of(device(), bits);
    const auto skipped = static_cast<size_t>(first) * 2;
    at.memory = buffer.part(skipped, buffer.bytes() - skipped);
    return at;
  }

  int64_t columns, rows, heads, batches, first = 0;
  DeviceHeads at;
  std::vector<uint16_t> bits;
  std::vector<double> values;  // what the bits are, once filled
  runtime::Buffer buffer;
};

class Trial {
 public:
  explicit Trial(Case the_case)
      : c_(std::move(the_case)),
        columns_(c_.p.value_depth != 0 ? c_.p.value_depth : c_.p.depth),
        key_heads_(c_.p.key_heads != 0 ? c_.p.key_heads : c_.p.heads),
        packed_(!c_.sequences.empty()),
        query_rows_(packed_ ? 0 : c_.p.queries),
        key_rows_(packed_ ? 0 : c_.p.keys),
        more_(device(), c_.has_sinks, c_.dropout, c_.p.heads, c_.data) {
    more_.give(c_.p);
    std::vector<uint32_t> query_offsets = {0}, key_offsets = {0};
    for (const auto& [queries, keys] : c_.sequences) {
      query_rows_ += queries, key_rows_ += keys;
      c_.p.queries = std::max(c_.p.queries, queries), c_.p.keys = std::max(c_.p.keys, keys);
      query_offsets.push_back(static_cast<uint32_t>(query_rows_));
      key_offsets.push_back(static_cast<uint32_t>(key_rows_));
    }
    const int64_t batches = packed_ ? 1 : c_.p.batches;
    q_.emplace(c_, c_.p.depth, query_rows_, c_.p.heads, batches);
    k_.emplace(c_, c_.p.depth, key_rows_, key_heads_, batches);
    v_.emplace(c_, columns_, key_rows_, key_heads_, batches);
    o_.emplace(c_, columns_, query_rows_, c_.p.heads, batches);
    std::mt19937_64 random(c_.data);
    for (Tensor* t : {&*q_, &*k_, &*v_}) t->fill(c_.p.type, random);
    c_.p.q = q_->to_device();
    c_.p.k = k_->to_device();
    c_.p.v = v_->to_device();
    std::ranges::fill(o_->bits, uint16_t{0xffff});
    c_.p.o = o_->to_device();
    lse_ = runtime::Buffer(device(), static_cast<size_t>(c_.p.heads * query_rows_ * batches * 4 + 64));
    if (c_.p.lse.bytes != 0) c_.p.lse = lse_;
    if (!packed_) return;
    c_.p.batches = static_cast<int64_t>(c_.sequences.size());
    c_.p.query_rows = query_rows_, c_.p.key_rows = key_rows_;
    query_offsets_ = runtime::Buffer::of(device(), query_offsets);
    key_offsets_ = runtime::Buffer::of(device(), key_offsets);
    c_.p.query_offsets = query_offsets_, c_.p.key_offsets = key_offsets_;
  }

  const AttentionArguments& arguments() const { return c_.p; }

  // O and lse as bits.
  std::vector<std::byte> run(Attention& attention) {
    poison();
    AttentionArguments p = c_.p;
    runtime::Buffer workspace;
    if (const size_t bytes = attention.workspace_bytes(p); bytes > 0) {
      workspace = runtime::Buffer(device(), bytes);
      workspace.fill(0xff);
      p.workspace = workspace;
    }
    attention(p);
    device().synchronize();
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
    device().synchronize();
    const auto is_poison = [](const auto& all) {
      return std::ranges::all_of(all, [](std::byte b) { return b == std::byte{0xff}; });
    };
    return is_poison(o_->buffer.copy_out<std::byte>()) && is_poison(lse_.copy_out<std::byte>());
  }

  // "" where O and lse are right, and nothing else was written.
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
              const double u = unit_roundoff(c_.p.type);
              const double most = u * std::abs(e) * 1.01 +
                                  row.magnitudes[static_cast<size_t>(column)] * (u + 4 * row.error + 1e-5) +
                                  row.errors[static_cast<size_t>(column)] + 0x1p-24;
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
      if (got[o.size() * 2 + i] != std::byte{0xff}) return fmt::format("byte {} behind lse was written", i);
    return "";
  }

 private:
  struct Row {
    std::vector<double> values, magnitudes, errors;
    double error = 0, log_sum = -INFINITY;
  };
  Row expected(int64_t b, int64_t h, int64_t query, int64_t i, int64_t queries, int64_t first_key,
               int64_t keys, int64_t sequence) {
    const AttentionArguments& p = c_.p;
    const int64_t shared = h / (p.heads / key_heads_), offset = p.top_left ? 0 : keys - queries,
                  right = p.causal ? 0 : p.right;
    const auto row_of = [&](const Tensor& t, int64_t row, int64_t head) {
      return std::span(t.values).subspan(t.index(b, row, head, 0), static_cast<size_t>(t.columns));
    };
    const double scale =
        p.scale > 0 ? static_cast<double>(p.scale) : 1 / std::sqrt(static_cast<double>(p.depth));
    const auto cap = static_cast<double>(p.softcap);
    Row row = {std::vector<double>(static_cast<size_t>(columns_)),
               std::vector<double>(static_cast<size_t>(columns_)),
               std::vector<double>(static_cast<size_t>(columns_))};
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
      double error = 0x1p-20 * scale * magnitude;
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
                     term = weight / sum * v[column] * factor;
        // Half of f16's least number, where the greatest weights were dropped, or a sink is the greatest.
        if (p.type == DType::f16) row.errors[column] += 0x1p-25 / sum * std::abs(v[column]) * factor;
        row.values[column] += term;
        row.magnitudes[column] += std::abs(term);
      }
    }
    row.log_sum = most + std::log(sum);
    return row;
  }

  Case c_;
  int64_t columns_, key_heads_;
  bool packed_;
  int64_t query_rows_, key_rows_;
  SinksAndDropout more_;
  std::optional<Tensor> q_, k_, v_, o_;
  runtime::Buffer lse_, query_offsets_, key_offsets_;
};

// A small tile of several blocks and CTAs, on the emulator; `forms` takes its own turn at each call.
AttentionTile small_tile(const AttentionOperation& o, const AttentionSize& size, int) {
  AttentionTile t = {.consumers = size.queries > 64 ? 2 : 1, .bn = 16};
  t.ahead = size.heads % 2 == 0;
  if (t.ahead) t.bn = 64;  // the least
  if (t.ahead && size.keys % 3 == 0) t.stages = 3;
  t.turns = t.consumers == 2 && size.keys % 2 == 0;
  t.late = t.turns && size.queries % 2 == 0;
  t.upwards = t.ahead && takes_longest_first(o) && size.queries % 3 == 0;
  t.lazy = size.keys % 5 != 0;
  t.whole = !o.causal && !o.window && !o.packed && size.keys > 0 && size.keys % t.bn == 0;
  return t;
}

Attention& attention() {
  static Attention attention = [] {
    kernels::AttentionOptions options;
    if (!large()) options.choose = small_tile, options.multiprocessors = 2;
    return Attention(device(), options);
  }();
  return attention;
}

void check_case(const Case& c) {
  CAPTURE(text(c));
  auto* emulator = dynamic_cast<runtime::Emulator*>(&device());
  Trial trial(c);
  if (emulator) emulator->seed(2 * c.data);
  const std::vector<std::byte> first = trial.run(attention());
  const std::string problem = trial.wrong(first);
  CHECK_MESSAGE(problem.empty(), problem);
  if (emulator) emulator->seed(2 * c.data + 1);
  CHECK_MESSAGE(trial.run(attention()) == first, "a second run gives other bits");
}

Case sized(int64_t queries, int64_t keys, int64_t heads = 1, int64_t depth = 16) {
  Case c;
  c.p.queries = queries, c.p.keys = keys, c.p.heads = heads, c.p.depth = depth;
  c.p.lse.bytes = 1;  // wanted
  return c;
}

}  // namespace

TEST_CASE("sizes from nothing on") {
  for (const int64_t queries : {0, 1, 3, 65})
    for (const int64_t keys : {0, 1, 16, 33}) check_case(sized(queries, keys, 2));
  Case none = sized(4, 4);
  none.p.batches = 0;
  check_case(none);
  none = sized(4, 4);
  none.p.heads = 0;
  check_case(none);
}

TEST_CASE("every mask, at both alignments, with more queries than keys and fewer") {
  for (const auto& [queries, keys] : {std::pair<int64_t, int64_t>{40, 70}, {70, 40}})
    for (const bool top_left : {false, true})
      for (const auto& [left, right] :
           {std::pair<int64_t, int64_t>{-1, 0}, {-1, 9}, {7, -1}, {20, 3}, {0, 0}, {1000, 1000}}) {
        Case c = sized(queries, keys);
        c.p.top_left = top_left, c.p.left = left, c.p.right = right;
        check_case(c);
      }
}

// Blocks of 64 queries of a consumer; blocks of 16 keys or, with two heads, where CTAs stay, of 64.
TEST_CASE("all sizes about the ends of blocks, under each mask") {
  // One mask of each, in turn: every two values of two axes are there together.
  struct Mask {
    bool top_left;
    int64_t left, right;
  };
  constexpr Mask masks[] = {{false, -1, -1}, {false, -1, 0}, {true, -1, 0},
                            {false, 0, 0},   {false, 17, 2}, {true, 40, -1}};
  size_t turn = 0;
  for (const int64_t heads : {1, 2})
    for (const int64_t queries : {1, 2, 63, 64, 65, 128, 129}) {
      turn += 2;
      for (const int64_t keys : {1, 2, 15, 16, 17, 63, 64, 65, 129}) {
        ++turn;
        for (size_t i = 0; i < std::size(masks); ++i) {
          if (!every_row && i != turn % std::size(masks)) continue;
          const auto& [top_left, left, right] = masks[i];
          Case c = sized(queries, keys, heads);
          c.p.top_left = top_left, c.p.left = left, c.p.right = right;
          c.data = static_cast<uint64_t>((queries * 131 + keys) * 7 + left + right);
          check_case(c);
        }
      }
    }
}

TEST_CASE("sinks and dropout, alone and together") {
  for (const auto& [queries, has_sinks, dropout] :
       {std::tuple(130, true, 0.F), {70, false, 0.2F}, {150, true, 0.7F}})
    for (const int64_t heads : {3, 4}) {
      Case c = sized(queries, 90, heads);
      c.p.key_heads = heads % 2 == 0 ? 2 : 1, c.p.batches = 2, c.has_sinks = has_sinks, c.dropout = dropout;
      c.p.right = heads == 4 ? 9 : -1, c.p.softcap = heads == 3 ? 3.F : 0.F;
      check_case(c);
    }
  for (const int64_t queries : {1, 5}) {  // some heads are rows, but not where weights are dropped
    Case c = sized(queries, 50, 12, 32);
    c.p.key_heads = 2, c.has_sinks = true, c.p.batches = 2;
    check_case(c);
    c.dropout = 0.5F;
    check_case(c);
  }
  Case c = sized(0, 0, 2);
  c.sequences = {{70, 30}, {3, 0}, {20, 90}}, c.p.causal = true, c.has_sinks = true, c.dropout = 0.1F;
  check_case(c);
}

TEST_CASE("one query, whose heads are rows") {
  for (const int64_t left : {-1, 5}) {
    Case c = sized(1, 50, 6, 32);
    c.p.key_heads = 2, c.p.batches = 2, c.p.causal = true, c.p.left = left;
    check_case(c);
    c.p.top_left = true;
    check_case(c);
  }
}

// If 6 heads share keys, two are rows of a block; of 8 all are, of 128 half; of 3 none.
TEST_CASE("few queries, some of whose heads are rows") {
  size_t turn = 0;  // of placements: each is there with all numbers of heads, and with all masks
  for (const auto& [queries, heads, shared] : {std::tuple<int64_t, int64_t, int64_t>{2, 8, 8},
                                               {3, 12, 6},
                                               {5, 6, 3},
                                               {17, 8, 4},
                                               {2, 128, 128},
                                               {40, 4, 2}})
    for (const auto& [top_left, left, right] : {std::tuple<bool, int64_t, int64_t>{false, -1, -1},
                                                {false, -1, 0},
                                                {true, -1, 0},
                                                {false, 9, 3},
                                                {false, 0, 0}}) {
      const auto lie = std::array{Case::Lie::rows_first, Case::Lie::heads_first, Case::Lie::odd}[turn++ % 3];
      Case c = sized(queries, 50, heads, 16);
      c.p.key_heads = heads / shared, c.p.batches = 2, c.lie = lie;
      c.p.top_left = top_left, c.p.left = left, c.p.right = right;
      c.data = static_cast<uint64_t>(queries * 7 + heads + left + right);
      check_case(c);
    }
}

TEST_CASE("columns of any number, and placement of any kind") {
  for (const int64_t depth : {1, 8, 24, 40, 64})
    for (const auto lie : {Case::Lie::rows_first, Case::Lie::heads_first, Case::Lie::apart, Case::Lie::odd}) {
      Case c = sized(20, 30, 2, depth);
      c.lie = lie, c.p.batches = 2, c.p.causal = true;
      c.p.value_depth = std::max<int64_t>(depth - 7, 1);
      check_case(c);
    }
}

TEST_CASE("without lse, with a scale, with softcap") {
  Case c = sized(33, 40);
  c.p.lse.bytes = 0, c.p.scale = 0.5f;
  check_case(c);
  c.p.softcap = 2, c.p.type = DType::bf16;
  check_case(c);
}

TEST_CASE("packed sequences of many lengths, none among them") {
  for (const bool causal : {false, true})
    for (const auto lie : {Case::Lie::rows_first, Case::Lie::odd}) {
      Case c = sized(0, 0, 4, 24);
      c.sequences = {{33, 20}, {0, 5}, {1, 40}, {70, 0}, {5, 5}};
      c.p.key_heads = 2, c.p.causal = causal, c.lie = lie;
      check_case(c);
      c.p.left = 6;
      check_case(c);
    }
}

// The attention of 40 queries and keys of 16 columns, causal, with one element replaced: whether each row has
// a NaN, or is one in all of its columns.
enum class Nan : uint8_t { none, some, all };
std::vector<Nan> rows_with(char tensor, size_t row, uint16_t bits, int64_t heads) {
  Case c = sized(40, 40, heads);
  c.p.causal = true;
  Trial trial(c);
  AttentionArguments p = trial.arguments();
  const auto width = static_cast<size_t>(16 * heads);
  std::vector<uint16_t> ones(40 * width, 0x3c00);
  const runtime::Buffer others = runtime::Buffer::of(device(), ones);
  ones[row * width + 3] = bits;
  const runtime::Buffer changed = runtime::Buffer::of(device(), ones);
  runtime::Buffer o(device(), ones.size() * 2);
  p.q = {.memory = tensor == 'q' ? changed : others};
  p.k = {.memory = tensor == 'k' ? changed : others};
  p.v = {.memory = tensor == 'v' ? changed : others};
  p.o = {.memory = o};
  attention()(p);
  device().synchronize();
  const auto got = o.copy_out<uint16_t>();
  std::vector<Nan> rows;
  for (size_t i = 0; i < 40; ++i) {
    const auto count = std::count_if(got.begin() + static_cast<std::ptrdiff_t>(i * width),
                                     got.begin() + static_cast<std::ptrdiff_t>(i * width + 16),
                                     [](uint16_t b) { return std::isnan(decode(DType::f16, b)); });
    rows.push_back(count == 0 ? Nan::none : count == 16 ? Nan::all : Nan::some);
  }
  return rows;
}

TEST_CASE("whom a NaN and an infinity reach") {
  constexpr uint16_t kNan = 0x7e00, kInfinity = 0x7c00;
  for (const int64_t heads : {1, 2}) {  // CTAs that end, and that stay
    for (const uint16_t bits : {kNan, kInfinity}) {
      const std::vector<Nan> of_query = rows_with('q', 5, bits, heads),
                             of_key = rows_with('k', 25, bits, heads);
      for (size_t i = 0; i < 40; ++i) {
        CHECK(of_query[i] == (i == 5 ? Nan::all : Nan::none));
        CHECK(of_key[i] == (i >= 25 ? Nan::all : Nan::none));
      }
    }
    const std::vector<Nan> of_value = rows_with('v', 25, kNan, heads);
    for (size_t i = 25; i < 40; ++i) CHECK(of_value[i] == Nan::some);  // and maybe rows of the same block
  }
}

TEST_CASE("what is refused") {
  Trial trial(sized(20, 30, 4));
  const auto refused = [&](auto&& change, const char* words) {
    AttentionArguments p = trial.arguments();
    change(p);
    CHECK_ERROR(attention()(p), words);
    CHECK_ERROR(attention().workspace_bytes(p), words);
  };
  refused([](auto& p) { p.type = DType::f32; }, "they are of f16 or bf16");
  refused([](auto& p) { p.depth = 257; }, "Q and K of 257 columns, and V of ");
  refused([](auto& p) { p.value_depth = 17; },
          "V of 17 columns (value_depth) and Q of 16; V has 1 to as many as Q");
  refused([](auto& p) { p.queries = -1; }, "queries = -1; 0 to");
  refused([](auto& p) { p.key_heads = 3; }, "4 heads, and 3 of keys");
  refused([](auto& p) { p.scale = -1; }, "scale = -1");
  refused([](auto& p) { p.scale = NAN; }, "scale = nan");
  refused([](auto& p) { p.softcap = INFINITY; }, "softcap = inf");
  refused([](auto& p) { p.causal = true, p.right = 2; }, "causal, and right = 2");
  refused([](auto& p) { p.keys = 1000; },
          "K of f16: 1000 x 16 elements with a row stride of 64, 4 heads with a stride of 16, 1 batches");
  refused([](auto& p) { p.q.row_stride = 8; }, "Q of f16: a row stride of 8 elements for rows of 16");
  refused([](auto& p) { p.v.memory.address += 1; }, "V of f16: the address");
  refused([](auto& p) { p.o = p.q; }, "O overlaps Q, which is read while O is written");
  refused(
      [](auto& p) {
        p.lse = {p.o.memory.address, p.o.memory.bytes};
      },
      "lse overlaps O, which is written while lse is written");
  refused([](auto& p) { p.lse.bytes = 8; }, "lse of 8 B");
  refused(
      [](auto& p) { p.o.head_stride = 16, p.o.row_stride = 16; },
      "O of f16: a row stride of 16 and a head stride of 16 elements let 20 rows of 16 in 4 heads overlap");
  refused([](auto& p) { p.query_offsets = p.lse; }, "key_offsets of 0 B");
  Trial odd([] {
    Case c = sized(20, 30);
    c.lie = Case::Lie::odd;
    return c;
  }());
  CHECK_ERROR(attention()(odd.arguments()), "takes a workspace of");
  AttentionArguments p = odd.arguments();
  p.workspace = {p.o.memory.address / 16 * 16, size_t{1} << 20};
  CHECK_ERROR(attention()(p), "the workspace");
  Trial known([] {
    Case c = sized(20, 30);
    c.p.depth = 36;  // rows of 72 bytes, which are copied
    return c;
  }());
  known.run(attention());  // from now on it is known, with the workspace that it had
  CHECK_ERROR(attention()(known.arguments()), "takes a workspace of");
}

namespace {

// The arguments of a case whose memory is the idle device's.
AttentionArguments on(IdleDevice& idle, const Case& c) {
  AttentionArguments p = c.p;
  const auto bytes = static_cast<size_t>(p.batches * (p.queries + p.keys + 8) * p.heads * (p.depth + 8) * 2);
  constexpr size_t kGap = 1 << 24;  // more than a workspace: what overlaps one overlaps no other
  const auto memory = [&] { return runtime::View{idle.allocate(bytes + 2 * kGap) + kGap, bytes}; };
  for (DeviceHeads* t : {&p.q, &p.k, &p.v, &p.o}) {
    t->memory = memory();
    if (c.lie == Case::Lie::odd) t->row_stride = p.heads * p.depth + 1;
  }
  if (p.lse.bytes != 0) p.lse = memory();
  return p;
}

AttentionArguments with_workspace(IdleDevice& idle, Attention& call, AttentionArguments p) {
  if (const size_t bytes = call.workspace_bytes(p)) p.workspace = {idle.allocate(bytes), bytes};
  return p;
}

}  // namespace

TEST_CASE("a call that is known loads nothing, and encodes its tensor maps once") {
  IdleDevice idle;
  Attention call(idle);
  Case c = sized(200, 300, 4, 64);
  c.p.causal = true, c.p.softcap = 2;
  AttentionArguments p = on(idle, c);
  call(p);
  const int loads = idle.loads, encoded = idle.encoded;
  const uint32_t grid = idle.last_grid;
  for (int i = 0; i < 10; ++i) call(p);
  CHECK(idle.loads == loads);
  CHECK(idle.encoded == encoded + 4);  // once for the form that is kept, whose addresses stay
  CHECK(idle.launches == 11);
  CHECK(idle.last_grid == grid);
  p.softcap = 3, p.scale = 0.5F;  // which are no part of a form
  p.stream = reinterpret_cast<void*>(0x55);
  call(p);
  CHECK(idle.encoded == encoded + 4);
  CHECK(idle.last_stream == reinterpret_cast<void*>(0x55));
  p.q.memory.address += 256, p.q.memory.bytes -= 256;
  call(p);
  CHECK(idle.encoded == encoded + 8);  // other bytes are another form
  p.softcap = 0;
  call(p);
  CHECK(idle.loads == loads + 1);
}

TEST_CASE("a call that is known encodes nothing where its operands are copied, and copies each time") {
  IdleDevice idle;
  Attention call(idle);
  Case c = sized(200, 300, 4, 60);
  c.lie = Case::Lie::odd, c.p.batches = 2;
  const AttentionArguments p = with_workspace(idle, call, on(idle, c));
  for (int i = 0; i < 2; ++i) call(p);
  const int encoded = idle.encoded;
  for (int i = 0; i < 10; ++i) call(p);
  CHECK(idle.encoded == encoded);
  CHECK(idle.launches == 12 * (1 + 3 * 2 + 1));  // Q, K and V of each batch, and O of both
  c.p.batches = 20;
  const AttentionArguments many = with_workspace(idle, call, on(idle, c));
  idle.launches = 0;
  for (int i = 0; i < 2; ++i) call(many);
  CHECK(idle.launches == 2 * (1 + 4 * 20));

  // A call that is copied for an address alone does not stand for calls of other addresses.
  c = sized(200, 300, 4, 64);
  const AttentionArguments aligned = on(idle, c);
  AttentionArguments odd = aligned;
  odd.q.memory.address += 2;
  odd = with_workspace(idle, call, odd);
  idle.launches = 0;
  call(odd);
  CHECK(idle.launches == 2);
  odd.q = aligned.q;
  for (int i = 0; i < 2; ++i) call(odd);
  CHECK(idle.launches == 2 + 2);
}

TEST_CASE("a call with nothing to do is known too, and one by another Attention is not") {
  IdleDevice idle;
  auto call = std::make_unique<Attention>(idle);
  const AttentionArguments none = on(idle, sized(0, 30)), some = on(idle, sized(20, 30));
  for (int i = 0; i < 3; ++i) (*call)(none);
  CHECK(idle.launches == 0);
  for (int i = 0; i < 3; ++i) (*call)(some);
  const int loads = idle.loads;
  CHECK(idle.launches == 3);
  call = std::make_unique<Attention>(idle);
  (*call)(some);
  CHECK(idle.loads == loads + 1);
}

TEST_CASE("a call that is known takes other tensors and numbers, from where they are now") {
  Case c = sized(33, 50, 4, 24);
  c.p.key_heads = 2, c.p.batches = 2, c.p.softcap = 2;
  for (const auto lie : {Case::Lie::rows_first, Case::Lie::odd})
    for (const bool packed : {false, true}) {
      c.lie = lie;
      c.sequences.clear();
      if (packed) c.sequences = {{33, 20}, {0, 5}, {70, 64}};
      std::vector<std::unique_ptr<Trial>> trials;
      for (int round = 0; round < 2; ++round)
        for (size_t i = 0; i < 3; ++i) {
          if (round == 0) {
            ++c.data, c.p.scale = 0.1F * static_cast<float>(i), c.p.softcap = 1 + static_cast<float>(i);
            trials.push_back(std::make_unique<Trial>(c));
          }
          const std::string problem = trials[i]->wrong(trials[i]->run(attention()));
          CHECK_MESSAGE(problem.empty(), problem);
        }
    }
}

TEST_CASE("a call that is known is checked where it has to be") {
  IdleDevice idle;
  Attention call(idle);
  Case c = sized(200, 300, 4, 64);
  const AttentionArguments p = on(idle, c);
  for (int i = 0; i < 2; ++i) call(p);
  const auto refused = [&](auto&& change, const char* words) {
    AttentionArguments q = p;
    change(q);
    const int launches = idle.launches;
    CHECK_ERROR(call(q), words);
    CHECK(idle.launches == launches);
  };
  refused([](auto& q) { q.o.memory.address = q.q.memory.address; }, "O overlaps Q");
  refused([](auto& q) { q.o.memory.address = q.v.memory.address + 16; }, "O overlaps V");
  refused([](auto& q) { q.lse.address = q.k.memory.address; }, "lse overlaps K");
  refused([](auto& q) { q.lse.address = q.o.memory.address; }, "lse overlaps O");
  refused([](auto& q) { q.lse.address += 2; }, "lse of ");
  refused([](auto& q) { q.q.memory.address += 1; }, "Q of f16: the address");
  refused([](auto& q) { q.q.memory.address += 2; }, "takes a workspace of");
  refused([](auto& q) { q.k.memory.address = 0; }, "K: data is NULL");
  refused([](auto& q) { q.scale = NAN; }, "scale = nan");
  refused([](auto& q) { q.scale = -1; }, "scale = -1");
  refused([](auto& q) { q.softcap = INFINITY; }, "softcap = inf");

  c.lie = Case::Lie::odd;
  const AttentionArguments odd = with_workspace(idle, call, on(idle, c));
  for (int i = 0; i < 2; ++i) {
    for (const runtime::View& memory : {odd.q.memory, odd.k.memory, odd.v.memory, odd.o.memory, odd.lse}) {
      AttentionArguments q = odd;
      q.workspace.address = memory.address + 16;  // within it
      CHECK_ERROR(call(q), "give it memory of its own");
      q.workspace.address = memory.address - q.workspace.bytes / 16 * 16 + 16;  // its end
      CHECK_ERROR(call(q), "give it memory of its own");
    }
    AttentionArguments q = odd;
    q.workspace.address = 0;
    CHECK_ERROR(call(q), "at 0x0");
    q = odd, q.workspace.address += 8;
    CHECK_ERROR(call(q), "takes a workspace of");
    call(odd);  // from now on it is known
  }
}

TEST_CASE("sixteen threads call one Attention, of several sizes, each for the first time and again") {
  kernels::AttentionOptions options;
  if (!large()) options.choose = small_tile, options.multiprocessors = 2;
  Attention shared(device(), options);
  std::atomic<int> wrong = 0;
  std::vector<std::jthread> threads;
  for (uint64_t i = 0; i < 16; ++i)
    threads.emplace_back([&, i] {
      Case c = sized(20 + 8 * static_cast<int64_t>(i % 3), 40, 1, 16);
      c.data = i, c.p.scale = 0.1F * static_cast<float>(i);
      if (i % 2) c.lie = Case::Lie::odd;
      Trial trial(c);
      for (int round = 0; round < 3; ++round) wrong += !trial.wrong(trial.run(shared)).empty();
    });
  threads.clear();
  CHECK(wrong == 0);
}

namespace {

// A device on which tune() finds the tile of number `take` the fastest, with the kernels that were loaded and
// what was reported meanwhile.
struct Tuner {
  explicit Tuner(runtime::Device& on = device()) : clock(on) {}

  ClockedDevice clock;
  Warnings warnings;
  std::vector<std::string> loaded;

  kernels::AttentionOptions options(const std::string& file) {
    kernels::AttentionOptions o;
    o.choose = small_tile, o.multiprocessors = 2;
    o.tuned_file = file;
    o.load = [this](const AttentionOperation& operation, const AttentionTile& tile) {
      loaded.push_back(text(tile));
      return std::make_unique<runtime::LoadedKernel>(load(clock, compiled(operation, tile)));
    };
    return o;
  }

 private:
  // Tests that measure the same contenders compile each once.
  const Compiled& compiled(const AttentionOperation& operation, const AttentionTile& tile) const {
    struct Known {
      AttentionOperation operation;
      AttentionTile tile;
      bool wants_ptx;
      Compiled kernel;
    };
    static std::deque<Known> all;
    for (const Known& known : all)
      if (known.operation == operation && known.tile == tile && known.wants_ptx == clock.wants_ptx())
        return known.kernel;
    return all
        .emplace_back(operation, tile, clock.wants_ptx(),
                      compiler_for(clock).compile(kernels::attention(operation, tile, {}, 2)))
        .kernel;
  }
};

// It does the same on a device that does nothing, and records nothing.
struct IdleTuner : Tuner {
  explicit IdleTuner(IdleDevice& idle) : Tuner(idle) { clock.records = false; }
};

}  // namespace

TEST_CASE("tune() takes the fastest tile, keeps it in a file, and touches no result") {
  const Folder folder;
  const std::string file = folder.path("deep/tuned.txt");
  Tuner tuner;
  size_t lines = 0;
  for (const auto lie : {Case::Lie::rows_first, Case::Lie::odd})
    for (const bool packed : {false, true}) {
      Case c = sized(packed ? 0 : 30, packed ? 0 : 50, 4, 24);
      c.p.key_heads = 2, c.p.causal = true, c.p.softcap = 2, c.lie = lie;
      c.data += lines;  // sizes differ too: they are what a file tells apart
      if (packed) c.sequences = {{20, 33 + static_cast<int64_t>(lines)}, {5, 5}};
      if (!packed) c.p.keys += static_cast<int64_t>(lines);
      Attention call(tuner.clock, tuner.options(file));
      Trial trial(c);
      CHECK(trial.wrong(trial.run(call)) == "");
      const AttentionTile before = call.tile(trial.arguments());
      CHECK(text(before) == tuner.loaded.back());
      trial.poison();
      for (int i = 0; i < 2; ++i) call.tune(trial.arguments());
      CHECK(trial.is_poisoned());
      CHECK(tuner.clock.calls == ++lines);
      CHECK(tuner.clock.contenders >= 6);
      CHECK(tuner.clock.sets > 1);
      const AttentionTile found = call.tile(trial.arguments());
      CHECK(!(found == before));
      CHECK(trial.wrong(trial.run(call)) == "");  // with another workspace than before

      Tuner later;
      Attention another(later.clock, later.options(file));
      another.tune(trial.arguments());
      CHECK(later.clock.calls == 0);
      CHECK(another.tile(trial.arguments()) == found);
      CHECK(later.warnings.lines().empty());
      CHECK(trial.wrong(trial.run(another)) == "");
    }
  CHECK(tuner.warnings.lines().empty());
  std::ifstream kept(file);
  std::string first;
  std::getline(kept, first);
  CHECK(first.starts_with("f16 32x32 causal+lse+softcap 60 50 2 1 1 21 0 2 "));
}

TEST_CASE("a file of tuned tiles that is damaged or does not suit is one warning, and no failure") {
  const Folder folder;
  const std::string known = "f16 16x16 lse 40 50 1 1 1 0 0 1 ";
  for (const auto& [line, words] :
       {std::pair<std::string, const char*>{"no line", "line 1 is not understood"},
        {known + "64", "line 1 is not understood"},
        {"f16 lse 64x16_9", "line 1 is not understood"},
        {known + "64x64_2_whole", "the tile 64x64_2_whole does not suit f16 16x16"},
        {known + "64x16_9", ""}}) {
    CAPTURE(line);
    const std::string file = folder.path("tuned.txt");
    std::ofstream(file) << line << '\n';
    IdleDevice idle;
    IdleTuner tuner(idle);
    Attention call(tuner.clock, tuner.options(file));
    call.tune(on(idle, sized(40, 50)));
    const size_t wrong = words[0] != 0 ? 1 : 0;
    CHECK(tuner.clock.calls == wrong);
    REQUIRE(tuner.warnings.lines().size() == wrong);
    if (wrong != 0) CHECK(tuner.warnings.lines()[0].find(words) != std::string::npos);
  }
  IdleDevice idle;
  IdleTuner tuner(idle);
  Attention call(tuner.clock, tuner.options("/proc/nowhere/tuned.txt"));
  call.tune(on(idle, sized(40, 50)));
  REQUIRE(tuner.warnings.lines().size() == 1);
  CHECK(tuner.warnings.lines()[0].find("it cannot be written") != std::string::npos);
}

TEST_CASE("a call that is known launches the kernel that tune() finds from then on") {
  IdleDevice idle;
  IdleTuner tuner(idle);
  Attention call(tuner.clock, tuner.options(""));
  const AttentionArguments p = on(idle, sized(200, 300, 4, 64));
  for (int i = 0; i < 2; ++i) call(p);
  const runtime::Program* before = idle.last_program;
  call.tune(p);
  call(p);
  CHECK(idle.last_program != before);
  before = idle.last_program;
  call(p);  // for which tensor maps are encoded once more, since it is kept now
  const int encoded = idle.encoded;
  call.tune(p);  // which has nothing to do any more
  call(p);
  CHECK(idle.last_program == before);
  CHECK(idle.encoded == encoded);
  // One that is under way while another thread tunes leaves its kernel to no call after it.
  const AttentionArguments q = on(idle, sized(200, 301, 4, 64));
  idle.meanwhile = [&] {
    before = idle.last_program;
    call.tune(q);
  };
  call(q);
  call(q);
  CHECK(idle.last_program != before);
}

TEST_CASE("tune() measures the order of packed sequences with the tiles that take it") {
  IdleDevice idle;
  IdleTuner tuner(idle);
  Attention call(tuner.clock, tuner.options(""));
  AttentionArguments p = on(idle, sized(200, 300, 4, 64));
  p.query_rows = p.queries, p.key_rows = p.keys;
  p.query_offsets = {idle.allocate(8), 8}, p.key_offsets = {idle.allocate(8), 8};
  call.tune(p);
  const auto ordered = std::ranges::count_if(
      tuner.loaded, [](const std::string& tile) { return tile.find("_ahead") != std::string::npos; });
  CHECK(ordered > 0);
  const auto copies = 3 * (tuner.clock.sets - 1);  // the first set is the caller's
  CHECK(static_cast<size_t>(idle.launches) ==
        copies + (1 + tuner.clock.sets) * (tuner.clock.contenders + static_cast<size_t>(ordered)));
}

TEST_CASE("what cannot be tuned, has no tile or loads no kernel says so") {
  IdleDevice idle;
  Attention call(idle);
  const AttentionArguments p = on(idle, sized(40, 50));
  CHECK_ERROR(call.tune(p), "attention: tuning needs a GPU, whose time it measures");
  CHECK_ERROR(call.tile(on(idle, sized(0, 50))), "the tile of a call with nothing to do");
  kernels::AttentionOptions options;
  options.load = [](const AttentionOperation&, const AttentionTile&) { return nullptr; };
  CHECK_ERROR(Attention(idle, options)(p), "AttentionOptions::load gave no kernel for the tile");
  options = {};
  options.choose = nullptr;
  CHECK_ERROR(Attention(idle, options), "AttentionOptions::choose is empty");
}

// The products of the reference on the host stay below a second: where a case would take more, it has fewer
// heads and batches.
void bound_reference(AttentionArguments& p) {
  constexpr int64_t kMostProducts = 300'000'000;
  const int64_t of_head = p.queries * p.keys * (p.depth + p.value_depth);
  const auto is_more = [&] { return p.batches * p.heads * of_head > kMostProducts; };
  if (is_more()) p.batches = 1;
  while (is_more() && p.heads > p.key_heads) p.heads -= p.key_heads;
  if (is_more()) p.heads = p.key_heads = 1;
}

TEST_CASE("random calls") {
  for (size_t i = only < 0 ? 0 : static_cast<size_t>(only);
       i < (only < 0 ? count : static_cast<size_t>(only) + 1); ++i) {
    std::mt19937_64 random(seed * 1000003 + i);
    const auto between = [&](int64_t low, int64_t high) {
      return std::uniform_int_distribution<int64_t>(low, high)(random);
    };
    const auto spread = [&](int64_t most) {  // as many of each order of magnitude
      return static_cast<int64_t>(
          std::exp(std::uniform_real_distribution<double>(0, std::log(static_cast<double>(most)))(random)));
    };
    const auto chance = [&](int one_in) { return between(1, one_in) == 1; };
    Case c = sized(spread(large() ? 700 : 150), spread(large() ? 900 : 150), between(1, 3));
    AttentionArguments& p = c.p;
    c.data = random();
    c.has_sinks = chance(3);
    if (chance(3)) c.dropout = static_cast<float>(between(1, 99)) / 100;
    p.type = chance(2) ? DType::f16 : DType::bf16;
    p.depth = std::array<int64_t, 7>{
        16, 32, 64, 80, 128, 192, 256}[static_cast<size_t>(between(0, large() ? 6 : 3))];
    if (chance(6)) p.depth = between(1, p.depth);
    p.value_depth = chance(5) ? between(1, p.depth) : p.depth;
    p.batches = between(1, 2);
    p.key_heads = p.heads;
    p.heads *= std::array<int64_t, 5>{1, 2, 3, 4, 8}[static_cast<size_t>(between(0, 4))];
    p.causal = chance(2);
    p.top_left = chance(4);
    if (chance(3)) p.left = spread(300);
    if (!p.causal && chance(4)) p.right = spread(100);
    if (chance(5)) p.softcap = static_cast<float>(between(1, 30));
    if (chance(4)) p.scale = chance(2) ? 0.2f : 2.f;  // 2 makes maxima grow by more than 2^8
    if (chance(3)) p.lse.bytes = 0;
    c.lie = static_cast<Case::Lie>(between(0, 3));
    if (chance(4)) {
      p.top_left = false;
      for (int64_t s = between(1, 5); s > 0; --s)
        c.sequences.push_back({chance(5) ? 0 : spread(150), chance(5) ? 0 : spread(200)});
      p.queries = p.keys = 0;
    }
    bound_reference(p);
    INFO("--seed=", seed, " --only=", i);
    // Ahead of the call, so that one that hangs has said which it is.
    if (large()) fmt::print("--seed={} --only={}: {}\n", seed, i, text(c)), std::fflush(stdout);
    check_case(c);
  }
}

}  // namespace ptxbuilder::test::attention_test
