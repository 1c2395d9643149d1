// Tests the author's scores and masks in attention: FlexAttention's examples, written as functions on a tile.
#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "kernels/attention/attention.h"
#include "options.h"
#include "ptxbuilder/ir/global_tensor.h"
#include "ptxbuilder/registers/memory.h"
#include "runtime/open_device.h"

namespace ptxbuilder::test::attention_score_test {
using kernels::Attention;
using kernels::AttentionArguments;
using kernels::AttentionOptions;
using kernels::AttentionScore;
using kernels::AttentionTile;
using kernels::ScorePlace;

namespace {

constexpr int64_t kBatches = 2, kHeads = 2, kQueries = 100, kKeys = 90, kColumns = 32;

runtime::Device& device() {
  static const std::unique_ptr<runtime::Device> device = runtime::open_device(test::device_name);
  return *device;
}

// Computes the changed score on the host.
using Expected = std::function<double(double score, int64_t batch, int64_t head, int64_t query, int64_t key)>;

std::vector<uint16_t> normal(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> of;
  std::vector<uint16_t> bits(static_cast<size_t>(count));
  for (uint16_t& b : bits) b = static_cast<uint16_t>(encode(DType::f16, of(random)));
  return bits;
}

// Checks O and lse against float64, with persistent CTAs and with others.
void check_score(const AttentionScore& score, const std::vector<runtime::Argument>& arguments,
                 const Expected& expected, const std::function<void(AttentionArguments&)>& change = {}) {
  const auto q = normal(kBatches * kQueries * kHeads * kColumns, 1),
             k = normal(kBatches * kKeys * kHeads * kColumns, 2),
             v = normal(kBatches * kKeys * kHeads * kColumns, 3);
  const auto on_q = runtime::Buffer::of(device(), q), on_k = runtime::Buffer::of(device(), k),
             on_v = runtime::Buffer::of(device(), v);
  runtime::Buffer o(device(), q.size() * 2),
      lse(device(), static_cast<size_t>(kBatches * kHeads * kQueries * 4));
  for (const bool ahead : {false, true}) {
    CAPTURE(ahead);
    AttentionOptions options;
    options.multiprocessors = 3;
    options.score = score;
    options.choose = [&](const auto&, const auto&, int) {
      AttentionTile t = {1, 64, 2};
      t.persistent = ahead;
      return t;
    };
    o.fill(0xff);
    lse.fill(0xff);
    AttentionArguments p;
    p.batches = kBatches, p.heads = kHeads, p.queries = kQueries, p.keys = kKeys, p.depth = kColumns;
    p.q.memory = on_q, p.k.memory = on_k, p.v.memory = on_v, p.o.memory = o, p.lse = lse;
    p.score = arguments;
    if (change) change(p);
    Attention attention(device(), options);
    attention(p);
    device().synchronize();
    const auto got = o.copy_out<uint16_t>();
    const auto sums = lse.copy_out<float>();
    const auto element = [&](const std::vector<uint16_t>& all, int64_t batch, int64_t row, int64_t rows,
                             int64_t head, int64_t column) {
      return decode(DType::f16,
                    all[static_cast<size_t>(((batch * rows + row) * kHeads + head) * kColumns + column)]);
    };
    for (int64_t b = 0; b < kBatches; ++b)
      for (int64_t h = 0; h < kHeads; ++h)
        for (int64_t i = 0; i < kQueries; ++i) {
          std::vector<double> weights;
          double sum = 0;
          for (int64_t j = 0; j < kKeys; ++j) {
            double s = 0;
            for (int64_t c = 0; c < kColumns; ++c)
              s += element(q, b, i, kQueries, h, c) * element(k, b, j, kKeys, h, c);
            sum += weights.emplace_back(
                std::exp(expected(s / std::sqrt(static_cast<double>(kColumns)), b, h, i, j)));
          }
          const double log_sum = sums[static_cast<size_t>((b * kHeads + h) * kQueries + i)];
          if (sum == 0)
            CHECK(log_sum == -INFINITY);
          else
            CHECK(std::abs(log_sum - std::log(sum)) < 1e-4 * (1 + std::abs(std::log(sum))));
          for (int64_t c = 0; c < kColumns; ++c) {
            double wanted = 0;
            for (int64_t j = 0; j < kKeys && sum > 0; ++j)
              wanted += weights[static_cast<size_t>(j)] / sum * element(v, b, j, kKeys, h, c);
            REQUIRE(std::abs(element(got, b, i, kQueries, h, c) - wanted) < 4e-3);
          }
        }
  }
}

}  // namespace

TEST_CASE("a bias by the distance of query and key (Press and others, ALiBi)") {
  const std::vector<float> slopes = {0.25f, 0.03125f};
  const auto on_device = runtime::Buffer::of(device(), slopes);
  const AttentionScore alibi = {
      .declare = [](Parameters& p) { p.add("slopes", Parameter::Kind::pointer, DType::f32, "of each head"); },
      .function =
          [](const RegisterTile<f32>& scores, const ScorePlace& at, const Parameters& p) {
            const f32 slope = p.get<gptr<f32>>("slopes")[at.head];
            return scores + astype<f32>(at.key - at.query) * slope;
          }};
  check_score(alibi, {runtime::pointer(on_device, DType::f32)},
              [&](double s, int64_t, int64_t h, int64_t i, int64_t j) {
                return s + static_cast<double>(j - i) * slopes[static_cast<size_t>(h)];
              });
  // A causal mask and a softcap are applied after the author's score.
  check_score(
      alibi, {runtime::pointer(on_device, DType::f32)},
      [&](double s, int64_t, int64_t h, int64_t i, int64_t j) {
        const double all = s + static_cast<double>(j - i) * slopes[static_cast<size_t>(h)];
        return j > i + kKeys - kQueries ? -INFINITY : 4 * std::tanh(all / 4);
      },
      [](AttentionArguments& p) { p.causal = true, p.softcap = 4; });
}

TEST_CASE("the first keys and those nearby (Xiao and others, attention sinks)") {
  const AttentionScore sinks = {
      .function = [](const RegisterTile<f32>& scores, const ScorePlace& at, const Parameters&) {
        const RegisterTile<s32> back = at.query - at.key;
        return select((at.key < s32(3)) | ((back >= s32(0)) & (back < s32(20))), scores, -INFINITY);
      }};
  check_score(sinks, {}, [](double s, int64_t, int64_t, int64_t i, int64_t j) {
    return j < 3 || (j <= i && j > i - 20) ? s : -INFINITY;
  });
}

TEST_CASE("documents that do not see each other, some of them without a key") {
  std::vector<uint32_t> of_query, of_key;
  for (int64_t b = 0; b < kBatches; ++b) {
    for (int64_t i = 0; i < kQueries; ++i) of_query.push_back(static_cast<uint32_t>((i + 7 * b) / 30));
    for (int64_t j = 0; j < kKeys; ++j) of_key.push_back(static_cast<uint32_t>(j / 40));
  }
  const auto queries = runtime::Buffer::of(device(), of_query), keys = runtime::Buffer::of(device(), of_key);
  const AttentionScore documents = {
      .declare =
          [](Parameters& p) {
            p.add("query_documents", Parameter::Kind::pointer, DType::u32, "of each query of each batch");
            p.add("key_documents", Parameter::Kind::pointer, DType::u32, "of each key of each batch");
          },
      .function =
          [](const RegisterTile<f32>& scores, const ScorePlace& at, const Parameters& p) {
            const auto row = [&](const char* name, int count) {
              return GlobalTensor(p.get<gptr<u32>>(name), {kBatches, count}, {count, 1})(at.batch, _);
            };
            const auto q = load(row("query_documents", kQueries).as_col().tile(at.first_query, 0),
                                scores.layout().reduced_rows(), u32(0)),
                       k = load(row("key_documents", kKeys).as_row().tile(0, at.first_key),
                                scores.layout().reduced_cols(), u32(0));
            return select(broadcast(q, scores.layout()) == broadcast(k, scores.layout()), scores, -INFINITY);
          }};
  check_score(documents, {runtime::pointer(queries, DType::u32), runtime::pointer(keys, DType::u32)},
              [&](double s, int64_t b, int64_t, int64_t i, int64_t j) {
                return of_query[static_cast<size_t>(b * kQueries + i)] ==
                               of_key[static_cast<size_t>(b * kKeys + j)]
                           ? s
                           : -INFINITY;
              });
}

TEST_CASE("a single query keeps its head's number") {
  const AttentionScore by_head = {
      .function = [](const RegisterTile<f32>& scores, const ScorePlace& at, const Parameters&) {
        return scores * select(at.head == 1u, f32(0), f32(1));
      }};
  const auto q = normal(2 * kColumns, 4), k = normal(8 * kColumns, 5);
  const auto on_q = runtime::Buffer::of(device(), q), on_k = runtime::Buffer::of(device(), k);
  runtime::Buffer o(device(), 2 * kColumns * 2);
  AttentionOptions options;
  options.score = by_head;
  AttentionArguments p;
  p.heads = 2, p.key_heads = 1, p.queries = 1, p.keys = 8, p.depth = kColumns;
  p.q.memory = on_q, p.k.memory = on_k, p.v.memory = on_k, p.o.memory = o;
  Attention attention(device(), options);
  attention(p);
  device().synchronize();
  const auto got = o.copy_out<uint16_t>();
  for (int64_t c = 0; c < kColumns; ++c) {
    double mean = 0;
    for (int64_t j = 0; j < 8; ++j) mean += decode(DType::f16, k[static_cast<size_t>(j * kColumns + c)]) / 8;
    CHECK(std::abs(decode(DType::f16, got[static_cast<size_t>(kColumns + c)]) - mean) < 2e-3);
  }
}

}  // namespace ptxbuilder::test::attention_score_test
