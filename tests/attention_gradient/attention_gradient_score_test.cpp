// Tests the author's scores in the attention gradient: ALiBi, documents, and a score whose derivative is not
// 1. Each uses the functions of attention, and is compared with float64.
#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "error_kit.h"
#include "kernels/attention_gradient/attention_gradient.h"
#include "options.h"
#include "ptxbuilder/ir/global_tensor.h"
#include "ptxbuilder/registers/memory.h"
#include "runtime/open_device.h"

namespace ptxbuilder::test::attention_gradient_score_test {
using kernels::AttentionGradient;
using kernels::AttentionGradientArguments;
using kernels::AttentionGradientOptions;
using kernels::AttentionScore;
using kernels::ScorePlace;

namespace {

constexpr int64_t kBatches = 2, kHeads = 2, kQueries = 100, kKeys = 90;

runtime::Device& device() {
  static const std::unique_ptr<runtime::Device> device = runtime::open_device(test::device_name);
  return *device;
}

// The changed score on the host, and its derivative.
struct Bent {
  double score, derivative = 1;
};
using Expected = std::function<Bent(double score, int64_t batch, int64_t head, int64_t query, int64_t key)>;

// A tensor [batch, row, head, column] of f16.
struct Tensor {
  Tensor(int64_t the_rows, int64_t the_columns, uint64_t seed) : rows(the_rows), columns(the_columns) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal;
    bits.resize(static_cast<size_t>(kBatches * rows * kHeads * columns));
    for (uint16_t& b : bits) b = static_cast<uint16_t>(encode(DType::f16, normal(random)));
    memory = runtime::Buffer::of(device(), bits);
  }
  double operator()(int64_t batch, int64_t row, int64_t head, int64_t column) const {
    return decode(DType::f16,
                  bits[static_cast<size_t>(((batch * rows + row) * kHeads + head) * columns + column)]);
  }
  int64_t rows, columns;
  std::vector<uint16_t> bits;
  runtime::Buffer memory;
};
double dot(const Tensor& x, const Tensor& y, int64_t b, int64_t h, int64_t i, int64_t j) {
  double sum = 0;
  for (int64_t c = 0; c < x.columns; ++c) sum += x(b, i, h, c) * y(b, j, h, c);
  return sum;
}

struct Sum {
  double value = 0, size = 0;
  void add(double factor, double x) { value += factor * x, size += std::abs(factor * x); }
};

void check_score(const AttentionScore& score, const std::vector<runtime::Argument>& arguments,
                 const Expected& expected, int64_t columns,
                 const std::function<void(AttentionGradientArguments&)>& change = {}) {
  Tensor q(kQueries, columns, 1), k(kKeys, columns, 2), v(kKeys, columns, 3), o(kQueries, columns, 4),
      grad(kQueries, columns, 5), dq(kQueries, columns, 6), dk(kKeys, columns, 7), dv(kKeys, columns, 8);
  runtime::Buffer lse(device(), static_cast<size_t>(kBatches * kHeads * kQueries * 4)), workspace;
  AttentionGradientArguments p;
  p.batches = kBatches, p.heads = kHeads, p.queries = kQueries, p.keys = kKeys, p.depth = columns;
  p.q.memory = q.memory, p.k.memory = k.memory, p.v.memory = v.memory, p.o.memory = o.memory, p.lse = lse;
  p.grad.memory = grad.memory, p.dq.memory = dq.memory, p.dk.memory = dk.memory, p.dv.memory = dv.memory;
  p.score = arguments;
  if (change) change(p);
  kernels::AttentionOptions forward;
  forward.score = score;
  kernels::Attention attention(device(), forward);
  attention(p);
  AttentionGradientOptions options;
  options.score = score;
  AttentionGradient gradient(device(), options);
  p.workspace = workspace = runtime::Buffer(device(), gradient.workspace_bytes(p));
  gradient(p);
  device().synchronize();
  for (Tensor* t : {&o, &dq, &dk, &dv}) t->bits = t->memory.copy_out<uint16_t>();

  const double scale = 1 / std::sqrt(static_cast<double>(columns));
  std::vector<Sum> of_dq(q.bits.size()), of_dk(k.bits.size()), of_dv(v.bits.size());
  const auto at = [&](int64_t b, int64_t row, int64_t rows, int64_t h, int64_t c) {
    return static_cast<size_t>(((b * rows + row) * kHeads + h) * columns + c);
  };
  for (int64_t b = 0; b < kBatches; ++b)
    for (int64_t h = 0; h < kHeads; ++h)
      for (int64_t i = 0; i < kQueries; ++i) {
        std::vector<Bent> scores;
        double total = 0;
        for (int64_t j = 0; j < kKeys; ++j)
          total += std::exp(scores.emplace_back(expected(scale * dot(q, k, b, h, i, j), b, h, i, j)).score);
        const double sum = dot(grad, o, b, h, i, i);
        for (int64_t j = 0; j < kKeys && total > 0; ++j) {
          const double w = std::exp(scores[static_cast<size_t>(j)].score) / total,
                       slope = w * (dot(grad, v, b, h, i, j) - sum) *
                               scores[static_cast<size_t>(j)].derivative * scale;
          for (int64_t c = 0; c < columns; ++c) {
            of_dv[at(b, j, kKeys, h, c)].add(w, grad(b, i, h, c));
            of_dk[at(b, j, kKeys, h, c)].add(slope, q(b, i, h, c));
            of_dq[at(b, i, kQueries, h, c)].add(slope, k(b, j, h, c));
          }
        }
      }
  for (const auto& [name, t, sums] :
       {std::tuple("dQ", &dq, &of_dq), {"dK", &dk, &of_dk}, {"dV", &dv, &of_dv}})
    for (size_t i = 0; i < sums->size(); ++i) {
      const Sum& sum = (*sums)[i];
      const double got = decode(DType::f16, t->bits[i]);
      INFO(name << " " << i << ": " << got << " is not " << sum.value);
      REQUIRE(std::abs(got - sum.value) <= 0x1p-8 * sum.size + 1e-5);
    }
}

}  // namespace

TEST_CASE("the gradient of a bias by the distance of query and key, under masks and a softcap") {
  const std::vector<float> slopes = {0.25f, 0.03125f};
  const auto on_device = runtime::Buffer::of(device(), slopes);
  const AttentionScore alibi = {
      .declare = [](Parameters& p) { p.add("slopes", Parameter::Kind::pointer, DType::f32, "of each head"); },
      .function =
          [](const RegisterTile<f32>& scores, const ScorePlace& at, const Parameters& p) {
            const f32 slope = p.get<gptr<f32>>("slopes")[at.head];
            return scores + astype<f32>(at.key - at.query) * slope;
          },
      .gradient = AttentionScore::gradient_passes};
  const auto biased = [&](double s, int64_t h, int64_t i, int64_t j) {
    return s + static_cast<double>(j - i) * slopes[static_cast<size_t>(h)];
  };
  for (const int64_t columns : {64, 192})
    check_score(
        alibi, {runtime::pointer(on_device, DType::f32)},
        [&](double s, int64_t, int64_t h, int64_t i, int64_t j) { return Bent{biased(s, h, i, j)}; },
        columns);
  check_score(
      alibi, {runtime::pointer(on_device, DType::f32)},
      [&](double s, int64_t, int64_t h, int64_t i, int64_t j) {
        const double t = std::tanh(biased(s, h, i, j) / 4);
        return j > i + kKeys - kQueries ? Bent{-INFINITY, 0} : Bent{4 * t, 1 - t * t};
      },
      128, [](AttentionGradientArguments& p) { p.causal = true, p.softcap = 4; });
}

TEST_CASE("the gradient of documents that do not see each other, some of them without a key") {
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
          },
      .gradient = AttentionScore::gradient_passes};
  check_score(
      documents, {runtime::pointer(queries, DType::u32), runtime::pointer(keys, DType::u32)},
      [&](double s, int64_t b, int64_t, int64_t i, int64_t j) {
        const bool same =
            of_query[static_cast<size_t>(b * kQueries + i)] == of_key[static_cast<size_t>(b * kKeys + j)];
        return same ? Bent{s} : Bent{-INFINITY, 0};
      },
      128);
}

TEST_CASE("a derivative that depends on the score, and one that is missing") {
  AttentionScore squared = {
      .function = [](const RegisterTile<f32>& s, const ScorePlace&,
                     const Parameters&) { return s - s * s * f32(0.125F); },
      .gradient = [](const RegisterTile<f32>& gradient, const RegisterTile<f32>& s, const ScorePlace&,
                     const Parameters&) { return gradient * (f32(1) - s * f32(0.25F)); }};
  check_score(
      squared, {},
      [](double s, int64_t, int64_t, int64_t, int64_t) {
        return Bent{s - s * s / 8, 1 - s / 4};
      },
      64);
  squared.gradient = nullptr;
  CHECK_ERROR(kernels::attention_gradient({}, {}, squared),
              "the score function has no gradient; set AttentionScore::gradient");
}

}  // namespace ptxbuilder::test::attention_gradient_score_test
