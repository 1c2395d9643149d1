// Attention of a few queries over caches: batches of other lengths, pages that a table finds, and keys that
// CTAs divide. Each call is held against float64 on poisoned memory, twice, and gives the same bits.
//
//   decode_test [--device=emulator|cuda|auto] [--count=N] [--seed=S] [--only=INDEX]
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <span>

#include "attention_kit.h"
#include "error_kit.h"
#include "kernels/attention/attention.h"
#include "options.h"
#include "runtime/emulator/emulator.h"
#include "runtime/open_device.h"

namespace ptxbuilder::test::decode_test {
using kernels::Attention;
using kernels::AttentionArguments;
using kernels::AttentionOperation;
using kernels::AttentionSize;
using kernels::AttentionTile;

namespace {

const size_t& count = test::option<size_t>("count", 16);
const uint64_t& seed = test::option<uint64_t>("seed", 1);
const int64_t& only = test::option<int64_t>("only", -1);

runtime::Device& device() {
  static const std::unique_ptr<runtime::Device> device = runtime::open_device(device_name);
  return *device;
}

// `lengths` are of the batches, and at most p.keys; p.page is 0 for caches in one piece.
struct Case {
  AttentionArguments p;
  std::vector<int64_t> lengths;
  uint64_t data = 1;
  bool has_sinks = false;
  std::vector<float> k_scale = {}, v_scale = {};  // of K and V of e4m3; or none
};

std::string text(const Case& c) {
  const AttentionArguments& p = c.p;
  return fmt::format(
      "{} and {} heads {} on {} queries {} keys {} depth {} {} page {} causal {} left {} softcap {} sinks {} "
      "scales {} lengths {}",
      name(p.type), name(p.key_type()), p.heads, p.key_heads, p.queries, p.keys, p.depth, p.value_depth,
      p.page, p.causal, p.left, p.softcap, c.has_sinks, fmt::join(c.k_scale, ","), fmt::join(c.lengths, ","));
}

class Trial {
 public:
  explicit Trial(const Case& the_case)
      : c_(the_case),
        columns_(c_.p.value_depth != 0 ? c_.p.value_depth : c_.p.depth),
        batches_(static_cast<int64_t>(c_.lengths.size())),
        rows_(c_.p.page > 0 ? c_.p.page : c_.p.keys),
        of_batch_(c_.p.page > 0 ? (c_.p.keys + c_.p.page - 1) / c_.p.page : 1),
        pieces_(of_batch_ * batches_ + (c_.p.page > 0 ? 3 : 0)),
        more_(device(), c_.has_sinks, 0, c_.p.heads, c_.data),
        random_(c_.data) {
    AttentionArguments& p = c_.p;
    p.batches = batches_;
    more_.give(p);
    const int64_t row = p.key_heads * (p.depth + columns_);  // K and V of a key side by side
    cache_.resize(static_cast<size_t>(pieces_ * rows_ * row));
    p.k.row_stride = p.v.row_stride = row;
    p.k.head_stride = p.depth, p.v.head_stride = columns_;
    p.k.batch_stride = p.v.batch_stride = rows_ * row;
    const size_t element = static_cast<size_t>(size_of(p.key_type()));
    cache_memory_ = runtime::Buffer(device(), cache_.size() * element);
    p.k.memory = cache_memory_;
    const auto of_keys = static_cast<size_t>(p.key_heads * p.depth) * element;
    p.v.memory = cache_memory_.part(of_keys, cache_memory_.bytes() - of_keys);
    if (p.page > 0) p.pages = pieces_;
    q_ = normal(static_cast<size_t>(batches_ * p.queries * p.heads * p.depth));
    q_memory_ = runtime::Buffer::of(device(), q_);
    p.q.memory = q_memory_;
    o_memory_ = runtime::Buffer(device(), static_cast<size_t>(batches_ * p.queries * p.heads * columns_) * 2);
    p.o.memory = o_memory_;
    lse_memory_ = runtime::Buffer(device(), static_cast<size_t>(batches_ * p.heads * p.queries) * 4);
    p.lse = lse_memory_;
    if (!c_.k_scale.empty()) {
      p.k_scale = k_scale_memory_ = runtime::Buffer::of(device(), c_.k_scale);
      p.v_scale = v_scale_memory_ = runtime::Buffer::of(device(), c_.v_scale);
      p.scales = static_cast<int64_t>(c_.k_scale.size());
    }
    lengths_memory_ = runtime::Buffer(device(), c_.lengths.size() * 4);
    p.key_lengths = lengths_memory_;
    table_.resize(static_cast<size_t>(of_batch_ * batches_));
    table_memory_ = runtime::Buffer(device(), table_.size() * 4);
    if (p.page > 0) p.block_table = table_memory_;
    lay(c_.lengths);
  }

  const AttentionArguments& arguments() const { return c_.p; }

  // Other lengths, in other pages, with other keys and values: what no batch has is NaN.
  void lay(const std::vector<int64_t>& lengths) {
    c_.lengths = lengths;
    const AttentionArguments& p = c_.p;
    std::vector<uint32_t> all(static_cast<size_t>(pieces_));
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint32_t>(i);
    if (p.page > 0) std::shuffle(all.begin(), all.end(), random_);
    std::copy_n(all.begin(), table_.size(), table_.begin());
    std::ranges::fill(cache_, uint16_t{0x7fff});  // NaN, also in its low byte
    std::normal_distribution<double> normal;
    for (int64_t b = 0; b < batches_; ++b)
      for (int64_t key = 0; key < lengths[static_cast<size_t>(b)]; ++key)
        for (int64_t i = 0; i < p.k.row_stride; ++i)
          cache_[place(b, key) + static_cast<size_t>(i)] =
              static_cast<uint16_t>(encode(p.key_type(), normal(random_)));
    const std::vector<uint8_t> bytes(cache_.begin(), cache_.end());
    cache_memory_.copy_in(p.key_type() == DType::e4m3 ? std::as_bytes(std::span(bytes))
                                                      : std::as_bytes(std::span(cache_)));
    table_memory_.copy_in(std::as_bytes(std::span(table_)));
    std::vector<uint32_t> numbers(lengths.begin(), lengths.end());
    lengths_memory_.copy_in(std::as_bytes(std::span(numbers)));
  }

  std::vector<std::byte> run(Attention& attention) {
    o_memory_.fill(0xff);
    lse_memory_.fill(0xff);
    AttentionArguments p = c_.p;
    runtime::Buffer workspace(device(), std::max<size_t>(attention.workspace_bytes(p), 16));
    workspace.fill(0xff);
    p.workspace = workspace;
    attention(p);
    device().synchronize();
    std::vector<std::byte> all(o_memory_.bytes() + lse_memory_.bytes());
    o_memory_.copy_out(std::span(all).first(o_memory_.bytes()));
    lse_memory_.copy_out(std::span(all).subspan(o_memory_.bytes()));
    return all;
  }

  // "" where O and lse are right.
  std::string wrong(const std::vector<std::byte>& got) const {
    const AttentionArguments& p = c_.p;
    for (int64_t b = 0; b < batches_; ++b)
      for (int64_t i = 0; i < p.queries; ++i)
        for (int64_t h = 0; h < p.heads; ++h) {
          const Row row = expected(b, i, h);
          for (int64_t column = 0; column < columns_; ++column) {
            uint16_t bits = 0;
            std::memcpy(&bits, got.data() + (((b * p.queries + i) * p.heads + h) * columns_ + column) * 2, 2);
            const double value = decode(p.type, bits), e = row.values[static_cast<size_t>(column)];
            const double u = unit_roundoff(p.type),
                         most = u * std::abs(e) * 1.01 +
                                row.magnitudes[static_cast<size_t>(column)] * (u + 4 * row.error + 1e-5) +
                                row.errors[static_cast<size_t>(column)] + 0x1p-24;
            if (!(std::abs(value - e) <= most))
              return fmt::format("O of batch {}, query {}, head {}, column {}: {} is not {} (within {})", b,
                                 i, h, column, value, e, most);
          }
          float log_sum = 0;
          std::memcpy(&log_sum, got.data() + o_memory_.bytes() + ((b * p.heads + h) * p.queries + i) * 4, 4);
          const auto l = static_cast<double>(log_sum);
          if (!(l == row.log_sum ||
                std::abs(l - row.log_sum) <= 2 * row.error + 1e-5 * (1 + std::abs(row.log_sum))))
            return fmt::format("lse of batch {}, head {}, query {}: {} is not {}", b, h, i, l, row.log_sum);
        }
    return "";
  }

 private:
  struct Row {
    std::vector<double> values, magnitudes, errors;
    double error = 0, log_sum = -INFINITY;
  };

  std::vector<uint16_t> normal(size_t elements) {
    std::vector<uint16_t> all(elements);
    std::normal_distribution<double> normal;
    for (uint16_t& x : all) x = static_cast<uint16_t>(encode(c_.p.type, normal(random_)));
    return all;
  }
  size_t place(int64_t batch, int64_t key) const {
    const int64_t piece =
        c_.p.page > 0 ? int64_t{table_[static_cast<size_t>(batch * of_batch_ + key / rows_)]} : batch;
    return static_cast<size_t>((piece * rows_ + key % rows_) * c_.p.k.row_stride);
  }

  static double scale_of(const std::vector<float>& scales, int64_t head) {
    if (scales.empty()) return 1;
    return static_cast<double>(scales.size() == 1 ? scales[0] : scales[static_cast<size_t>(head)]);
  }

  Row expected(int64_t b, int64_t i, int64_t h) const {
    const AttentionArguments& p = c_.p;
    const int64_t keys = c_.lengths[static_cast<size_t>(b)], own = i + keys - p.queries,
                  shared = h / (p.heads / p.key_heads);
    const size_t q = static_cast<size_t>(((b * p.queries + i) * p.heads + h) * p.depth);
    Row row = {std::vector<double>(static_cast<size_t>(columns_)),
               std::vector<double>(static_cast<size_t>(columns_)),
               std::vector<double>(static_cast<size_t>(columns_))};
    const double scale = 1 / std::sqrt(static_cast<double>(p.depth)), cap = static_cast<double>(p.softcap);
    std::vector<std::pair<int64_t, double>> scores;
    for (int64_t j = 0; j < keys; ++j) {
      if ((p.causal && j > own) || (p.left >= 0 && j < own - p.left)) continue;
      double score = 0, magnitude = 0;
      for (int64_t l = 0; l < p.depth; ++l) {
        const double term =
            decode(p.type, q_[q + static_cast<size_t>(l)]) * scale_of(c_.k_scale, shared) *
            decode(p.key_type(), cache_[place(b, j) + static_cast<size_t>(shared * p.depth + l)]);
        score += term, magnitude += std::abs(term);
      }
      score *= scale;
      double error = 0x1p-20 * scale * magnitude;
      if (cap > 0) score = cap * std::tanh(score / cap), error += 0x1p-10 * cap;
      row.error = std::max(row.error, error);
      scores.emplace_back(j, score);
    }
    double most = more_.sink(h);
    for (const auto& [key, score] : scores) most = std::max(most, score);
    if (std::isinf(most)) return row;
    double sum = std::exp(more_.sink(h) - most);
    for (auto& [key, score] : scores) sum += score = std::exp(score - most);
    for (const auto& [key, weight] : scores)
      for (int64_t column = 0; column < columns_; ++column) {
        const double v =
            scale_of(c_.v_scale, shared) *
            decode(p.key_type(), cache_[place(b, key) + static_cast<size_t>(p.key_heads * p.depth +
                                                                            shared * columns_ + column)]);
        const auto at = static_cast<size_t>(column);
        if (p.type == DType::f16) row.errors[at] += 0x1p-25 / sum * std::abs(v);
        row.values[at] += weight / sum * v;
        row.magnitudes[at] += std::abs(weight / sum * v);
      }
    row.log_sum = most + std::log(sum);
    return row;
  }

  Case c_;
  int64_t columns_, batches_, rows_, of_batch_,
      pieces_;  // of K and V: rows of a piece, and how many there are
  SinksAndDropout more_;
  std::mt19937_64 random_;
  std::vector<uint16_t> q_, cache_;
  std::vector<uint32_t> table_;
  runtime::Buffer q_memory_, cache_memory_, o_memory_, lse_memory_, lengths_memory_, table_memory_,
      k_scale_memory_, v_scale_memory_;
};

// Small blocks, so that few keys are several; those of few queries are divided.
AttentionTile small_tile(const AttentionOperation& o, const AttentionSize& size, int) {
  AttentionTile t = {.consumers = 1, .bn = size.heads % 2 == 0 ? 32 : 16};
  t.stages = size.batches % 2 == 0 ? 3 : 2;
  if (o.e4m3) t.cache_stages = static_cast<int>(2 + size.keys % 3);
  t.split = size.queries <= 256 && size.keys % 3 != 0;
  t.lazy = o.depth % 32 == 0;
  return t;
}

Attention& attention() {
  static Attention attention = [] {
    kernels::AttentionOptions options;
    if (device().wants_ptx()) options.choose = small_tile, options.multiprocessors = 8;
    return Attention(device(), options);
  }();
  return attention;
}

void check_trial(Trial& trial, uint64_t data) {
  auto* emulator = dynamic_cast<runtime::Emulator*>(&device());
  if (emulator) emulator->seed(2 * data);
  const std::vector<std::byte> first = trial.run(attention());
  const std::string problem = trial.wrong(first);
  CHECK_MESSAGE(problem.empty(), problem);
  if (emulator) emulator->seed(2 * data + 1);
  CHECK_MESSAGE(trial.run(attention()) == first, "a second run gives other bits");
}

Case sized(int64_t queries, int64_t keys, int64_t heads, int64_t key_heads, int64_t page,
           std::vector<int64_t> lengths) {
  Case c;
  c.p.queries = queries, c.p.keys = keys, c.p.heads = heads, c.p.key_heads = key_heads;
  c.p.depth = 16, c.p.page = page, c.p.causal = true;
  c.lengths = std::move(lengths);
  return c;
}

}  // namespace

TEST_CASE("lengths from nothing on, in one piece and in pages") {
  for (const int64_t page : {0, 8, 16, 24, 64})
    for (const int64_t keys : {100, 200}) {
      Case c = sized(1, keys, 4, 2, page, {0, 1, 15, 16, 17, 64, 99, 100});
      c.data = static_cast<uint64_t>(page + keys);
      CAPTURE(text(c));
      Trial trial(c);
      check_trial(trial, c.data);
    }
}

// A call that was prepared, as a captured graph, reads lengths and tables from where they are now.
TEST_CASE("lengths and tables that change between calls of one form") {
  Case c = sized(3, 200, 6, 3, 16, {200, 3, 90});
  Trial trial(c);
  for (const std::vector<int64_t>& lengths :
       {std::vector<int64_t>{200, 3, 90}, {5, 200, 199}, {0, 64, 1}, {1, 2, 3}}) {
    trial.lay(lengths);
    check_trial(trial, static_cast<uint64_t>(lengths[0] + 7));
  }
}

// There are more sequences than a warp has lanes, some heads are of one team and some have one each, and a
// piece of the line ends anywhere.
TEST_CASE("lengths of a long tail, which CTAs share evenly") {
  for (const auto& [heads, key_heads, batches] : {std::array<int64_t, 3>{4, 2, 70}, {3, 3, 33}, {10, 5, 5}}) {
    std::mt19937_64 random(seed * 31 + static_cast<uint64_t>(batches));
    std::uniform_real_distribution<double> any;
    Case c = sized(1, 400, heads, key_heads, batches % 2 == 0 ? 16 : 0, {});
    for (int64_t b = 0; b < batches; ++b)
      c.lengths.push_back(std::lround(std::pow(any(random), b % 7 == 0 ? 1 : 6) * 400));
    c.data = static_cast<uint64_t>(batches);
    CAPTURE(text(c));
    Trial trial(c);
    check_trial(trial, c.data);
    std::ranges::reverse(c.lengths);
    trial.lay(c.lengths);
    check_trial(trial, c.data + 1);
  }
}

// Some heads have columns that are no multiple of 32, and a scale each or one for all.
TEST_CASE("caches of e4m3") {
  int64_t at = 0;
  for (const int64_t scales : {0, 1, 3})
    for (const auto& [depth, value_depth, page] :
         {std::array<int64_t, 3>{32, 32, 16}, {48, 16, 0}, {96, 64, 8}, {160, 160, 32}}) {
      Case c = sized(1 + at % 3, 100, 6, 3, page, {100, 0, 33, 7 + at % 20});
      c.p.type = at++ % 2 == 0 ? DType::bf16 : DType::f16;
      c.p.cache_type = DType::e4m3;
      c.p.depth = depth, c.p.value_depth = value_depth;
      c.has_sinks = at % 3 == 0;
      for (int64_t i = 0; i < scales; ++i)
        c.k_scale.push_back(0.3F + 0.6F * static_cast<float>(i)),
            c.v_scale.push_back(1.9F - 0.7F * static_cast<float>(i));
      c.data = static_cast<uint64_t>(at);
      CAPTURE(text(c));
      Trial trial(c);
      check_trial(trial, c.data);
    }
  // CTAs do not share the keys of blocks of 64 queries.
  Case c = sized(70, 90, 2, 2, 0, {90, 80});
  c.p.cache_type = DType::e4m3, c.p.depth = 32;
  Trial trial(c);
  check_trial(trial, 3);
}

// Threads copy their rows, each 16 bytes of some; what no page has, a key after the last or a page that is
// none, reads as zeros.
TEST_CASE("pages of any number of rows") {
  uint64_t at = 0;
  for (const int64_t page : {1, 2, 3, 4, 12})
    for (const bool is_e4m3 : {false, true}) {
      Case c = sized(at % 2 == 0 ? 1 : 70, 90, 4, 2, page, {90, 0, 1, 40});
      c.p.depth = is_e4m3 ? 64 : 48, c.p.value_depth = at % 3 == 0 ? 32 : 0;
      c.p.type = at % 3 == 0 ? DType::bf16 : DType::f16;
      if (is_e4m3) c.p.cache_type = DType::e4m3;
      c.data = ++at;
      CAPTURE(text(c));
      Trial trial(c);
      check_trial(trial, c.data);
    }
  Case wide = sized(1, 60, 1, 1, 2, {60, 33});
  wide.p.depth = 160;
  Trial trial(wide);
  check_trial(trial, 5);
}

TEST_CASE("random calls over caches") {
  for (size_t i = 0; i < count; ++i) {
    std::mt19937_64 random(seed * 1000 + i);
    if (only >= 0 && static_cast<size_t>(only) != i) continue;
    const auto any = [&](int64_t least, int64_t most) {
      return std::uniform_int_distribution<int64_t>(least, most)(random);
    };
    const auto one_of = [&](std::initializer_list<int64_t> all) {
      return all.begin()[any(0, static_cast<int64_t>(all.size()) - 1)];
    };
    const int64_t key_heads = any(1, 3), group = one_of({1, 2, 3, 4, 8}), batches = any(1, 4),
                  keys = any(1, 260);
    Case c = sized(one_of({1, 1, 2, 3, 5, 9, 70}), keys, key_heads * group, key_heads,
                   one_of({0, 1, 4, 8, 16, 32, 40, 128}), {});
    for (int64_t b = 0; b < batches; ++b) c.lengths.push_back(any(0, keys));
    c.p.type = any(0, 1) == 0 ? DType::f16 : DType::bf16;
    c.p.depth = one_of({16, 32, 48, 64, 80});
    c.p.value_depth = any(0, 2) == 0 ? 16 : 0;
    c.p.causal = any(0, 2) != 0;
    c.p.left = any(0, 2) == 0 ? any(0, 80) : -1;
    c.p.softcap = any(0, 3) == 0 ? 2.5F : 0;
    c.has_sinks = any(0, 2) == 0;
    if (any(0, 2) == 0) {
      c.p.cache_type = DType::e4m3;
      for (int64_t head = 0; head < key_heads; ++head)
        c.k_scale.push_back(std::uniform_real_distribution<float>(0.2F, 2)(random)),
            c.v_scale.push_back(std::uniform_real_distribution<float>(0.01F, 20)(random));
    }
    c.data = seed * 77 + i;
    CAPTURE(i);
    CAPTURE(text(c));
    Trial trial(c);
    check_trial(trial, c.data);
  }
}

TEST_CASE("what of caches is refused") {
  Trial trial(sized(1, 100, 4, 2, 16, {50, 100}));
  const auto refused = [&](auto&& change, const char* words) {
    AttentionArguments p = trial.arguments();
    change(p);
    CHECK_ERROR(attention()(p), words);
  };
  refused([](auto& p) { p.page = -1, p.pages = 1; }, "page = -1; 0 to");
  refused([](auto& p) { p.page = 0; }, "a block_table, and pages of 0 rows (page)");
  refused([](auto& p) { p.block_table = {}; }, "pages of 16 rows, and no block_table");
  refused([](auto& p) { p.key_lengths = {}; }, "a block_table, and no key_lengths");
  refused([](auto& p) { p.block_table.bytes = 8; }, "block_table of 8 B");
  refused([](auto& p) { p.key_lengths.bytes = 4; }, "key_lengths of 4 B");
  refused([](auto& p) { p.causal = false, p.top_left = true; }, "lengths of keys and top_left");
  refused([](auto& p) { p.query_offsets = p.key_lengths; },
          "packed sequences, and key_lengths or a block_table");
  refused([](auto& p) { p.pages = 1000; }, "K of");
  refused([](auto& p) { p.cache_type = DType::e5m2; }, "K and V of e5m2, and Q of f16");
  refused([](auto& p) { p.k_scale = p.v_scale = p.key_lengths; }, "k_scale, beside K of f16");
  refused([](auto& p) { p.cache_type = DType::e4m3, p.k_scale = p.key_lengths; }, "k_scale, and no v_scale");
  refused([](auto& p) { p.cache_type = DType::e4m3, p.k_scale = p.v_scale = p.key_lengths, p.scales = 3; },
          "3 scales of K and V; one, or one for each of 2 heads");
  refused([](auto& p) { p.key_lengths = {p.lse.address, p.lse.bytes}; }, "lse overlaps key_lengths");
}

}  // namespace ptxbuilder::test::decode_test
