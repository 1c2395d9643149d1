// Tests AttentionGradient, the call for any lengths: masks, heads, sizes down to 0, placement, refused calls,
// and random calls. Each is compared with float64 on poisoned memory.
//
//   attention_gradient_test [--device=emulator|cuda|auto] [--count=N] [--seed=S] [--only=INDEX]
//
// --only repeats one random call, whose index a failure prints.
#include "kernels/attention_gradient/attention_gradient.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <random>
#include <set>

#include "attention_kit.h"
#include "error_kit.h"
#include "options.h"
#include "runtime/open_device.h"

namespace ptxbuilder::test::attention_gradient_test {
using kernels::Attention;
using kernels::AttentionGradient;
using kernels::AttentionGradientArguments;
using kernels::DeviceHeads;

namespace {

const size_t& count = test::option<size_t>("count", 4);
const uint64_t& seed = test::option<uint64_t>("seed", 1);
const int64_t& only = test::option<int64_t>("only", -1);

runtime::Device& device() {
  static const std::unique_ptr<runtime::Device> device = runtime::open_device(device_name);
  return *device;
}

struct Case {
  AttentionGradientArguments p;
  std::vector<std::pair<int64_t, int64_t>> packed = {};  // queries and keys of each sequence
  bool lse_grad = false;                                 // lse has a gradient, too
  bool has_sinks = false;
  float dropout = 0;
  int64_t gap = 0;  // elements after each row of a head, and before the first
  uint64_t data = 1;
};

std::string text(const Case& c) {
  const AttentionGradientArguments& p = c.p;
  std::vector<std::string> sequences;
  for (const auto& [queries, keys] : c.packed) sequences.push_back(fmt::format("{}+{}", queries, keys));
  return fmt::format(
      "{} batches {} heads {} on {} queries {} keys {} depth {} {} scale {} softcap {} causal {} top_left {} "
      "left {} right {} lse_grad {} deterministic {} gap {} sinks {} dropout {} packed {}",
      name(p.type), p.batches, p.heads, p.key_heads, p.queries, p.keys, p.depth, p.value_depth, p.scale,
      p.softcap, p.causal, p.top_left, p.left, p.right, c.lse_grad, p.deterministic, c.gap, c.has_sinks,
      c.dropout, fmt::join(sequences, " "));
}

// A tensor with its gaps, [batch, row, head, column].
struct Tensor {
  Tensor(DType the_type, int64_t gap, int64_t the_columns, int64_t the_rows, int64_t the_heads,
         int64_t the_batches)
      : type(the_type),
        columns(the_columns),
        rows(the_rows),
        heads(the_heads),
        batches(the_batches),
        first(gap) {
    at.head_stride = columns + gap;
    at.row_stride = heads * at.head_stride;
    at.batch_stride = rows * at.row_stride;
    bits.assign(static_cast<size_t>(first + batches * at.batch_stride + 64), 0xffff);
  }

  size_t index(int64_t batch, int64_t row, int64_t head, int64_t column) const {
    return static_cast<size_t>(first + batch * at.batch_stride + row * at.row_stride + head * at.head_stride +
                               column);
  }
  double operator()(int64_t batch, int64_t row, int64_t head, int64_t column) const {
    return values[index(batch, row, head, column)];
  }
  void fill(std::mt19937_64& random) {
    std::normal_distribution<double> normal;
    for (uint16_t& b : bits) b = static_cast<uint16_t>(encode(type, normal(random)));
    decode_all();
  }
  DeviceHeads to_device() {
    buffer = runtime::Buffer::of(device(), bits);
    const auto skipped = static_cast<size_t>(first) * 2;
    at.memory = buffer.part(skipped, buffer.bytes() - skipped);
    return at;
  }
  void from_device() {
    bits = buffer.copy_out<uint16_t>();
    decode_all();
  }
  // Decodes all elements once, because each is used for many rows.
  void decode_all() {
    values.clear();
    for (const uint16_t b : bits) values.push_back(decode(type, b));
  }

  DType type;
  int64_t columns, rows, heads, batches, first;
  DeviceHeads at;
  std::vector<uint16_t> bits;
  std::vector<double> values;  // the decoded bits
  runtime::Buffer buffer;
};

// The rows of Q and of K that belong to one sequence of a batch.
struct Sequence {
  int64_t batch, queries, keys, first_query = 0, first_key = 0, number = 0;
};
std::vector<Sequence> sequences_of(const Case& c) {
  std::vector<Sequence> all;
  if (c.packed.empty())
    for (int64_t b = 0; b < c.p.batches; ++b) all.push_back({b, c.p.queries, c.p.keys, 0, 0, b});
  int64_t query = 0, key = 0;
  for (const auto& [queries, keys] : c.packed) {
    all.push_back({0, queries, keys, query, key, static_cast<int64_t>(all.size())});
    query += queries, key += keys;
  }
  return all;
}

// The expected value of an element, and the error that a correct kernel may have.
struct Sum {
  double value = 0, error = 0;
  void add(double factor, double factor_error, double x) {
    value += factor * x, error += factor_error * std::abs(x);
  }
};

class Trial {
 public:
  explicit Trial(const Case& c)
      : c_(c),
        sequences_(sequences_of(c)),
        batches_(c.packed.empty() ? c.p.batches : 1),
        query_rows_(rows(&Sequence::queries)),
        key_rows_(rows(&Sequence::keys)),
        columns_(c.p.value_depth != 0 ? c.p.value_depth : c.p.depth),
        key_heads_(c.p.key_heads != 0 ? c.p.key_heads : c.p.heads),
        q_(of_queries(c.p.depth)),
        k_(of_keys(c.p.depth)),
        v_(of_keys(columns_)),
        o_(of_queries(columns_)),
        grad_(of_queries(columns_)),
        dq_(of_queries(c.p.depth)),
        dk_(of_keys(c.p.depth)),
        dv_(of_keys(columns_)),
        more_(device(), c.has_sinks, c.dropout, c.p.heads, c.data) {
    std::mt19937_64 random(c.data);
    for (Tensor* t : {&q_, &k_, &v_, &grad_}) t->fill(random);
    const auto logarithms = static_cast<size_t>(c.p.heads * query_rows_ * batches_);
    lse_ = runtime::Buffer(device(), logarithms * 4 + 16);
    std::normal_distribution<float> normal;
    lse_grad_.resize(std::max<size_t>(logarithms, 1));  // a device cannot allocate 0 bytes
    for (float& x : lse_grad_) x = c.lse_grad ? normal(random) : 0;
    lse_grad_on_device_ = runtime::Buffer::of(device(), lse_grad_);
    AttentionGradientArguments& p = c_.p;
    if (!c.packed.empty()) pack(p);
    if (c.lse_grad) p.lse_grad = lse_grad_on_device_;
    more_.give(p);
    if (c.has_sinks) p.dsinks = dsinks_ = runtime::Buffer(device(), static_cast<size_t>(p.heads) * 4);
    p.q = q_.to_device(), p.k = k_.to_device(), p.v = v_.to_device(), p.o = o_.to_device(), p.lse = lse_;
    p.grad = grad_.to_device(), p.dq = dq_.to_device(), p.dk = dk_.to_device(), p.dv = dv_.to_device();
  }

  AttentionGradientArguments& arguments() { return c_.p; }
  // Returns the f32 sums of dQ before they are rounded, which are at the beginning of the workspace.
  std::vector<uint32_t> dq_sums(int64_t rows) const {
    std::vector<uint32_t> all = workspace_.copy_out<uint32_t>();
    all.resize(static_cast<size_t>(rows * c_.p.depth * c_.p.heads * c_.p.batches));
    return all;
  }

  // Returns "" if dQ, dK and dV are right and nothing else was written.
  std::string run(Attention& attention, AttentionGradient& gradient) {
    call(attention, static_cast<const kernels::AttentionArguments&>(c_.p));
    for (Tensor* t : {&dq_, &dk_, &dv_}) t->buffer.fill(0xff);
    if (c_.has_sinks) dsinks_.fill(0xff);
    call(gradient, c_.p);
    for (Tensor* t : {&o_, &dq_, &dk_, &dv_}) t->from_device();
    compute();
    for (const auto& [name, t, sums] :
         {std::tuple("dQ", &dq_, &of_dq_), {"dK", &dk_, &of_dk_}, {"dV", &dv_, &of_dv_}})
      if (std::string found = wrong(name, *t, *sums); !found.empty()) return found;
    return c_.has_sinks ? wrong_sinks() : "";
  }

 private:
  // Returns the rows of a head in a batch.
  int64_t rows(int64_t Sequence::*count) const {
    int64_t all = 0;
    for (const Sequence& s : sequences_) all += c_.packed.empty() && s.batch > 0 ? 0 : s.*count;
    return all;
  }
  void pack(AttentionGradientArguments& p) {
    std::vector<uint32_t> of_queries = {0}, of_keys = {0};
    for (const Sequence& s : sequences_) {
      of_queries.push_back(static_cast<uint32_t>(s.first_query + s.queries));
      of_keys.push_back(static_cast<uint32_t>(s.first_key + s.keys));
      p.queries = std::max(p.queries, s.queries), p.keys = std::max(p.keys, s.keys);
    }
    p.batches = static_cast<int64_t>(sequences_.size());
    p.query_rows = query_rows_, p.key_rows = key_rows_;
    p.query_offsets = query_offsets_ = runtime::Buffer::of(device(), of_queries);
    p.key_offsets = key_offsets_ = runtime::Buffer::of(device(), of_keys);
  }
  Tensor of_queries(int64_t columns) const {
    return {c_.p.type, c_.gap, columns, query_rows_, c_.p.heads, batches_};
  }
  Tensor of_keys(int64_t columns) const {
    return {c_.p.type, c_.gap, columns, key_rows_, key_heads_, batches_};
  }

  template <class Operation, class Arguments>
  void call(Operation& operation, Arguments p) {
    if (const size_t bytes = operation.workspace_bytes(p); bytes > 0) {
      workspace_ = runtime::Buffer(device(), bytes);
      workspace_.fill(0xff);
      p.workspace = workspace_;
    }
    operation(p);
    device().synchronize();
  }

  // Returns whether a query sees a key; both are numbered within the sequence.
  bool sees(const Sequence& s, int64_t query, int64_t key) const {
    const int64_t right = c_.p.causal ? 0 : c_.p.right;
    const int64_t ahead = key - query - (c_.p.top_left ? 0 : s.keys - s.queries);
    return (right < 0 || ahead <= right) && (c_.p.left < 0 || ahead >= -c_.p.left);
  }

  static double dot(const Tensor& x, const Tensor& y, std::array<int64_t, 3> at_x,
                    std::array<int64_t, 3> at_y, double& size) {
    double sum = 0;
    size = 0;
    const double *row_x = &x.values[x.index(at_x[0], at_x[1], at_x[2], 0)],
                 *row_y = &y.values[y.index(at_y[0], at_y[1], at_y[2], 0)];
    for (int64_t c = 0; c < x.columns; ++c) {
      const double term = row_x[c] * row_y[c];
      sum += term, size += std::abs(term);
    }
    return sum;
  }

  void compute() {
    of_dq_.assign(dq_.bits.size(), {}), of_dk_.assign(dk_.bits.size(), {}),
        of_dv_.assign(dv_.bits.size(), {});
    of_dsinks_.assign(static_cast<size_t>(c_.p.heads), {});
    const int64_t group = key_heads_ > 0 ? c_.p.heads / key_heads_ : 1;
    for (const Sequence& s : sequences_)
      for (int64_t h = 0; h < c_.p.heads; ++h)
        for (int64_t i = 0; i < s.queries; ++i) add_query(s, h, h / group, s.first_query + i);
  }

  void add_query(const Sequence& s, int64_t h, int64_t shared, int64_t i) {
    const int64_t b = s.batch, end = s.first_key + s.keys;
    const double u = unit_roundoff(c_.p.type),
                 scale = c_.p.scale > 0 ? c_.p.scale : 1 / std::sqrt(c_.p.depth);
    const double cap = c_.p.softcap;
    std::vector<double> scores(static_cast<size_t>(key_rows_), -INFINITY), bends(scores.size(), 1);
    double most = -INFINITY, score_error = 0, size = 0, total = 0, sum = 0, sum_size = 0;
    for (int64_t j = s.first_key; j < end; ++j)
      if (sees(s, i - s.first_query, j - s.first_key)) {
        double& score = scores[static_cast<size_t>(j)];
        score = scale * dot(q_, k_, {b, i, h}, {b, j, shared}, size);
        double error = 0x1p-18 * scale * size;
        if (cap > 0) {  // the error of tanh.approx, which has 11 bits
          const double t = std::tanh(score / cap);
          score = cap * t, error += 0x1p-10 * std::abs(score);
          bends[static_cast<size_t>(j)] = 1 - t * t;
        }
        most = std::max(most, score);
        score_error = std::max(score_error, error);
      }
    most = std::max(most, more_.sink(h));
    if (most == -INFINITY) return;
    total = std::exp(more_.sink(h) - most);
    const double of_sink = total;
    for (double& score : scores) total += score = std::exp(score - most);
    // sum(dO * O) uses the rounded O, so that its rounding is not counted twice.
    sum = dot(grad_, o_, {b, i, h}, {b, i, h}, sum_size) -
          lse_grad_[static_cast<size_t>((b * c_.p.heads + h) * query_rows_ + i)];
    of_dsinks_[static_cast<size_t>(h)].add(-of_sink / total, of_sink / total * (4 * score_error + 1e-5), sum);
    of_dsinks_[static_cast<size_t>(h)].error += of_sink / total * 0x1p-18 * sum_size;
    for (int64_t j = s.first_key; j < end; ++j) {
      const double w = scores[static_cast<size_t>(j)] / total;
      if (w == 0) continue;
      const double kept = more_.factor(s.number, h, i - s.first_query, j - s.first_key),
                   bend = bends[static_cast<size_t>(j)],
                   product = kept * dot(grad_, v_, {b, i, h}, {b, j, shared}, size),
                   straight = w * (product - sum), slope = straight * bend,
                   relative = u + 4 * score_error + 1e-5,
                   least = c_.p.type == DType::f16 ? 0x1p-25 : 0,  // half of the smallest positive f16 number
          slope_error = least + std::abs(slope) * relative + std::abs(straight) * 0x1p-9 * (1 - bend) +
                        w * 0x1p-18 * (kept * size + sum_size);
      for (int64_t c = 0; c < columns_; ++c)
        of_dv_[dv_.index(b, j, shared, c)].add(w * kept, (least + w * relative) * kept, grad_(b, i, h, c));
      for (int64_t c = 0; c < c_.p.depth; ++c) {
        of_dk_[dk_.index(b, j, shared, c)].add(slope * scale, slope_error * scale, q_(b, i, h, c));
        of_dq_[dq_.index(b, i, h, c)].add(slope * scale, slope_error * scale, k_(b, j, shared, c));
      }
    }
  }

  std::string wrong_sinks() const {
    const std::vector<float> all = dsinks_.copy_out<float>();
    for (size_t h = 0; h < all.size(); ++h)
      if (const Sum& sum = of_dsinks_[h];
          !(std::abs(all[h] - sum.value) <= sum.error + 0x1p-20 * std::abs(sum.value)))
        return fmt::format("dsinks of head {}: {} is not {} (within {})", h, all[h], sum.value, sum.error);
    return "";
  }
  std::string wrong(const char* name, const Tensor& t, const std::vector<Sum>& sums) const {
    std::vector<bool> written(t.bits.size(), false);
    for (int64_t b = 0; b < t.batches; ++b)
      for (int64_t row = 0; row < t.rows; ++row)
        for (int64_t h = 0; h < t.heads; ++h)
          for (int64_t c = 0; c < t.columns; ++c) {
            const size_t at = t.index(b, row, h, c);
            written[at] = true;
            const double value = decode(t.type, t.bits[at]),
                         tolerance = sums[at].error +
                                     unit_roundoff(t.type) * std::abs(sums[at].value) * 1.01 + 0x1p-24;
            if (!(std::abs(value - sums[at].value) <= tolerance))
              return fmt::format("{} of batch {}, row {}, head {}, column {}: {} is not {} (within {})", name,
                                 b, row, h, c, value, sums[at].value, tolerance);
          }
    for (size_t i = 0; i < written.size(); ++i)
      if (!written[i] && t.bits[i] != 0xffff)
        return fmt::format("{}: element {} of a gap was written", name, i);
    return "";
  }

  Case c_;
  std::vector<Sequence> sequences_;
  int64_t batches_, query_rows_, key_rows_;  // sizes of the tensors
  int64_t columns_, key_heads_;
  Tensor q_, k_, v_, o_, grad_, dq_, dk_, dv_;
  SinksAndDropout more_;
  runtime::Buffer lse_, lse_grad_on_device_, dsinks_, workspace_, query_offsets_, key_offsets_;
  std::vector<float> lse_grad_;  // zeros if no gradient is given
  std::vector<Sum> of_dq_, of_dk_, of_dv_, of_dsinks_;
};

// All calls use one object, so that their plans coexist.
struct Both {
  Attention attention{device()};
  AttentionGradient gradient{device()};
};
Both& both() {
  static Both both;
  return both;
}
std::string wrong(const Case& c) { return Trial(c).run(both().attention, both().gradient); }

Case sized(int64_t queries, int64_t keys, int64_t depth, int64_t heads = 1) {
  Case c;
  c.p.type = DType::bf16;
  c.p.queries = queries, c.p.keys = keys, c.p.depth = depth, c.p.heads = heads;
  return c;
}

}  // namespace

TEST_CASE("sizes from 0 on") {
  for (const auto& [queries, keys, depth] : {std::tuple(1, 1, 64),
                                             {1, 300, 128},
                                             {300, 1, 64},
                                             {65, 129, 128},
                                             {128, 128, 64},
                                             {0, 5, 64},
                                             {70, 0, 128}}) {
    const Case c = sized(queries, keys, depth, 2);
    CHECK_MESSAGE(wrong(c) == "", text(c));
  }
}

TEST_CASE("columns that are not a multiple of the kernel's, and values that are narrower") {
  for (const auto& [depth, columns] : {std::pair(8, 8), {40, 40}, {96, 64}, {80, 80}, {128, 16}}) {
    Case c = sized(100, 150, depth, 2);
    c.p.value_depth = columns;
    CHECK_MESSAGE(wrong(c) == "", text(c));
  }
}

TEST_CASE("192 and 256 columns, and fewer of V, whose sums consumers share") {
  for (const auto& [depth, columns, masked] : {std::tuple(192, 192, false),
                                               {192, 128, true},
                                               {256, 256, true},
                                               {200, 144, false},
                                               {129, 20, true}}) {
    Case c = sized(90, 100, depth, 2);
    if (masked) {
      c = sized(0, 0, depth, 2);
      c.packed = {{70, 80}, {3, 65}}, c.p.causal = true, c.p.softcap = 4, c.p.deterministic = true;
      c.p.key_heads = 1, c.p.type = DType::f16, c.lse_grad = true;
    }
    c.p.value_depth = columns;
    CHECK_MESSAGE(wrong(c) == "", text(c));
  }
}

TEST_CASE("heads of queries that share those of keys, of one and two batches, in each type") {
  // The CTAs of a cluster divide groups of 2 and 4 heads.
  for (const auto& [type, depth, heads] :
       {std::tuple(DType::f16, 64, 8), {DType::f16, 128, 6}, {DType::bf16, 64, 6}, {DType::bf16, 128, 4}}) {
    Case c = sized(130, 140, depth, heads);
    c.p.type = type, c.p.key_heads = 2, c.p.batches = heads == 6 ? 1 : 2, c.p.causal = heads == 4;
    CHECK_MESSAGE(wrong(c) == "", text(c));
  }
}

TEST_CASE("masks: causal at both ends, with more and fewer queries than keys, and by a number") {
  for (const auto& [queries, keys] : {std::pair(200, 200), {90, 260}, {260, 90}})
    for (const bool top_left : {false, true}) {
      Case c = sized(queries, keys, queries == 200 ? 128 : 64);
      c.p.causal = true, c.p.top_left = top_left;
      CHECK_MESSAGE(wrong(c) == "", text(c));
      c.p.causal = false, c.p.right = 37;
      CHECK_MESSAGE(wrong(c) == "", text(c));
    }
}

TEST_CASE("windows: at both sides and at one, with rows that see no key and keys that no query sees") {
  for (const auto& [queries, keys, depth] : {std::tuple(200, 150, 64), {150, 260, 128}})
    for (const auto& [left, right] : {std::pair(20, 0), {40, -1}, {0, 0}, {130, 9}}) {
      Case c = sized(queries, keys, depth);
      c.p.left = left, c.p.right = right, c.p.top_left = left == right || depth == 64;
      CHECK_MESSAGE(wrong(c) == "", text(c));
    }
}

TEST_CASE("a softcap, with and without masks") {
  for (const bool causal : {false, true}) {
    Case c = sized(130, 150, causal ? 64 : 128, 2);
    c.p.softcap = 2, c.p.causal = causal;
    if (causal) c.p.left = 60, c.p.type = DType::f16;
    CHECK_MESSAGE(wrong(c) == "", text(c));
  }
}

TEST_CASE("sinks and dropout, alone and together") {
  for (const auto& [depth, queries, keys, has_sinks, dropout] :
       {std::tuple(64, 130, 150, true, 0.F), {128, 100, 70, false, 0.2F}, {192, 70, 100, true, 0.7F}}) {
    Case c = sized(queries, keys, depth, 2);
    c.p.key_heads = 1, c.has_sinks = has_sinks, c.dropout = dropout, c.lse_grad = depth == 64;
    c.p.right = depth == 64 ? 5 : -1, c.p.batches = depth == 128 ? 2 : 1;
    CHECK_MESSAGE(wrong(c) == "", text(c));
  }
  Case c = sized(0, 0, 64, 2);  // rows without a key have only the sink
  c.packed = {{70, 80}, {3, 0}, {20, 65}, {0, 20}};
  c.p.causal = true, c.has_sinks = true, c.dropout = 0.3F, c.lse_grad = true;
  CHECK_MESSAGE(wrong(c) == "", text(c));
  for (const auto& [queries, batches] : {std::pair(0, 2), {9, 0}}) {
    c = sized(queries, 10, 64, 2);
    c.p.batches = batches, c.has_sinks = true;
    CHECK_MESSAGE(wrong(c) == "", text(c));
  }
}

TEST_CASE("a gradient of lse") {
  Case c = sized(100, 140, 64, 4);
  c.p.key_heads = 2, c.p.batches = 2, c.p.causal = true, c.lse_grad = true;
  CHECK_MESSAGE(wrong(c) == "", text(c));
}

// The causal mask lets the three blocks of keys begin at different blocks of queries. The window leaves the
// first block of keys the fewest blocks of queries. It therefore reaches the second head's blocks before
// the other blocks of keys do, although their turn comes first.
TEST_CASE("bitwise reproducible gradients, and others, whichever blocks of keys come first") {
  auto* emulator = dynamic_cast<runtime::Emulator*>(&device());
  for (const bool causal : {true, false}) {
    Case c = sized(320, 320, 64, causal ? 1 : 2);
    c.p.key_heads = 1, c.p.causal = causal;
    if (!causal) c.p.left = 0;
    std::array<std::set<std::vector<uint32_t>>, 2> found;
    for (const uint64_t schedule : {0, 1, 2})
      for (const bool deterministic : {false, true}) {
        if (!deterministic && !causal) continue;
        if (emulator) emulator->seed(schedule);
        c.p.deterministic = deterministic;
        Trial trial(c);
        CHECK_MESSAGE(trial.run(both().attention, both().gradient) == "", text(c));
        found[deterministic].insert(trial.dq_sums(c.p.queries));
      }
    CHECK(found[true].size() == 1);
    if (emulator && causal) CHECK(found[false].size() > 1);
  }
}

TEST_CASE("packed sequences, some of them without queries or keys") {
  for (const auto& [depth, columns, gap, masked] :
       {std::tuple(64, 64, 0, false), {128, 128, 0, true}, {80, 40, 8, true}, {36, 36, 1, false}}) {
    Case c = sized(0, 0, depth, 2);
    c.packed = {{70, 150}, {1, 64}, {0, 30}, {130, 40}, {20, 0}, {64, 129}};
    c.p.key_heads = 1, c.p.value_depth = columns, c.gap = gap;
    if (masked) c.p.causal = true, c.p.left = 50, c.lse_grad = true, c.p.deterministic = depth == 128;
    CHECK_MESSAGE(wrong(c) == "", text(c));
  }
}

TEST_CASE("operands that TMA cannot load go through the workspace") {
  for (const auto& [depth, gap] : {std::pair(64, 3), {128, 8}, {36, 0}, {33, 1}}) {
    Case c = sized(70, 140, depth, 2);
    c.gap = gap, c.p.batches = 2;
    CHECK_MESSAGE(wrong(c) == "", text(c));
  }
}

TEST_CASE("a repeated call with other data and addresses") {
  for (uint64_t data = 1; data <= 3; ++data) {
    Case c = sized(100, 200, 128);
    c.data = data;
    CHECK_MESSAGE(wrong(c) == "", text(c));
  }
}

TEST_CASE("what is refused") {
  AttentionGradient& gradient = both().gradient;
  Trial trial(sized(64, 64, 64));
  const AttentionGradientArguments right = trial.arguments();
  const runtime::Buffer of_heads(device(), 64);
  const auto refused = [&](auto&& change) {
    AttentionGradientArguments p = right;
    change(p);
    gradient.workspace_bytes(p);
  };
  CHECK_ERROR(refused([](auto& p) { p.lse = {}; }), "lse is not given");
  CHECK_ERROR(refused([](auto& p) { p.dk = p.dv; }), "dK overlaps dV");
  CHECK_ERROR(refused([](auto& p) { p.dq = p.q; }), "dQ overlaps Q");
  CHECK_ERROR(refused([](auto& p) { p.lse_grad = p.lse, p.lse_grad.bytes = 8; }), "the gradient of lse");
  CHECK_ERROR(refused([](auto& p) { p.lse_grad = p.dq.memory; }), "dQ overlaps the gradient of lse");
  CHECK_ERROR(refused([](auto& p) { p.dsinks = p.lse; }), "but sinks are not given");
  CHECK_ERROR(refused([&](auto& p) { p.sinks = p.dsinks = of_heads; }), "dsinks overlaps sinks");
  CHECK_ERROR(refused([](auto& p) { p.grad.memory.bytes = 100; }), "attention_gradient: dO");
  CHECK(trial.run(both().attention, gradient) == "");  // the call is known from now on
  CHECK_ERROR(gradient(right), "attention_gradient: this call needs a workspace of 33792 B");
}

TEST_CASE("random calls") {
  for (size_t i = 0; i < count; ++i) {
    if (only >= 0 && i != static_cast<size_t>(only)) continue;
    std::mt19937_64 random(seed * 1000 + i);
    const auto draw = [&](int64_t least, int64_t most) {
      return std::uniform_int_distribution<int64_t>(least, most)(random);
    };
    const int64_t longest = device().wants_ptx() ? 150 : 600;
    Case c = sized(draw(1, longest), draw(1, longest), draw(1, 256));
    c.p.type = draw(0, 1) != 0 ? DType::bf16 : DType::f16;
    c.p.value_depth = draw(0, 1) != 0 ? draw(1, c.p.depth) : c.p.depth;
    c.p.key_heads = draw(1, 2), c.p.heads = c.p.key_heads * draw(1, 3), c.p.batches = draw(1, 2);
    c.p.causal = draw(0, 1) != 0, c.p.top_left = draw(0, 1) != 0;
    if (!c.p.causal) c.p.right = draw(0, 1) != 0 ? draw(0, c.p.keys) : -1;
    if (draw(0, 2) == 0) c.p.left = draw(0, c.p.keys);
    if (draw(0, 2) == 0) c.p.softcap = static_cast<float>(draw(1, 5));
    if (draw(0, 2) == 0) c.dropout = static_cast<float>(draw(1, 99)) / 100;
    c.has_sinks = draw(0, 2) == 0;
    c.lse_grad = draw(0, 3) == 0, c.p.deterministic = draw(0, 2) == 0;
    if (draw(0, 2) == 0) c.p.scale = 0.5F;
    c.gap = draw(0, 2) == 0 ? draw(1, 9) : 0;
    if (draw(0, 2) == 0) {
      c.p.queries = c.p.keys = 0, c.p.top_left = false;
      for (int64_t sequences = draw(1, 4); sequences > 0; --sequences)
        c.packed.emplace_back(draw(0, longest / 2), draw(0, longest / 2));
    }
    c.data = random();
    const std::string found = wrong(c);
    CHECK_MESSAGE(found == "", "--only=" << i << " --seed=" << seed << ": " << text(c));
  }
}

}  // namespace ptxbuilder::test::attention_gradient_test
