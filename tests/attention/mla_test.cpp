// Tests attention whose values are the first columns of its keys (multi-head latent attention with absorbed
// weights): lengths, pages, heads and queries, in blocks that CTAs divide. Each call is compared with float64
// on poisoned memory, twice, and must produce the same bits.
//
//   mla_test [--device=emulator|cuda|auto] [--count=N] [--seed=S] [--only=INDEX]
#include <doctest/doctest.h>

#include <random>

#include "cache_kit.h"
#include "error_kit.h"
#include "kernels/attention/parts.h"
#include "kernels/attention_gradient/attention_gradient.h"
#include "options.h"

namespace ptxbuilder::test::mla_test {
using kernels::Attention;
using kernels::AttentionArguments;

namespace {

const size_t& count = test::option<size_t>("count", 6);
const uint64_t& seed = test::option<uint64_t>("seed", 1);
const int64_t& only = test::option<int64_t>("only", -1);

// On the emulator, a few CTAs divide the keys, so that each has parts of several sequences.
Attention& attention() {
  static Attention attention = [] {
    kernels::AttentionOptions options;
    if (cache_device().wants_ptx()) options.multiprocessors = 5;
    return Attention(cache_device(), options);
  }();
  return attention;
}

CacheCase sized(int64_t queries, int64_t keys, int64_t heads, int64_t page, std::vector<int64_t> lengths) {
  CacheCase c;
  c.p.type = DType::bf16;
  c.p.queries = queries, c.p.keys = keys, c.p.heads = heads, c.p.key_heads = 1, c.p.page = page;
  c.p.depth = 320, c.p.value_depth = 256;
  c.p.causal = true, c.p.scale = 0.07F;
  c.lengths = std::move(lengths);
  return c;
}

// Changes the keys of a case to rows of bytes.
CacheCase in_bytes(CacheCase c) {
  c.p.type = DType::bf16, c.p.cache_type = DType::e4m3;
  c.p.depth = 576, c.p.value_depth = 512;
  return c;
}

void check_case(const CacheCase& c) {
  CAPTURE(text(c));
  CacheTrial trial(cache_device(), c);
  check_trial(trial, attention(), c.data);
}

}  // namespace

TEST_CASE("lengths from 0 on, in one piece and in pages") {
  for (const int64_t page : {0, 8, 64, 128}) {
    CacheCase c = sized(1, 200, 16, page, {0, 1, 63, 64, 65, 128, 199, 200});
    c.data = static_cast<uint64_t>(page + 1);
    check_case(c);
  }
}

TEST_CASE("keys of 576 columns") {
  CacheCase c = sized(2, 330, 16, 64, {330, 0, 65});
  c.p.depth = 576, c.p.value_depth = 512;
  check_case(c);
  c.p.queries = 1, c.p.heads = 128;
  check_case(c);
}

TEST_CASE("rows of bytes, in one piece and in pages") {
  for (const int64_t page : {0, 8, 64}) {
    CacheCase c = in_bytes(sized(1, 130, 8, page, {0, 1, 31, 32, 33, 130}));
    c.data = static_cast<uint64_t>(page + 1);
    check_case(c);
  }
  CacheCase c = in_bytes(sized(2, 70, 64, 64, {70, 5}));
  check_case(c);
}

// TMA cannot load such rows, so they are copied first.
TEST_CASE("rows of bytes whose distance is not a multiple of 16 bytes") {
  CacheCase c = in_bytes(sized(1, 40, 8, 0, {40, 7}));
  c.gap = 24;
  check_case(c);
}

TEST_CASE("lengths and tables that change between calls of one form") {
  CacheTrial trial(cache_device(), sized(2, 260, 16, 64, {260, 3, 90}));
  for (const std::vector<int64_t>& lengths :
       {std::vector<int64_t>{260, 3, 90}, {5, 260, 199}, {0, 64, 1}, {1, 0, 2}}) {
    trial.lay(lengths);
    check_trial(trial, attention(), static_cast<uint64_t>(lengths[0] + 7));
  }
}

// There are more sequences than a warp has lanes, and CTAs divide the keys into pieces that end anywhere.
TEST_CASE("many sequences of few and of many keys") {
  std::mt19937_64 random(seed * 31);
  std::uniform_real_distribution<double> any;
  CacheCase c = sized(1, 700, 8, 64, {});
  for (int64_t b = 0; b < 35; ++b)
    c.lengths.push_back(std::lround(std::pow(any(random), b % 9 == 0 ? 1 : 6) * 700));
  check_case(c);
}

TEST_CASE("trees of tokens") {
  for (const int64_t queries : {2, 16}) {
    CacheCase c = sized(queries, 200, 16, 64, {200, 0, 5, 70});
    c.has_tree = true, c.p.causal = queries == 2, c.data = static_cast<uint64_t>(queries);
    check_case(c);
  }
}

// Each CTA has one block of the sequence. One CTA of each group of parts adds them up.
TEST_CASE("more parts than one CTA adds") {
  kernels::AttentionOptions options;
  if (cache_device().wants_ptx()) options.multiprocessors = 40;
  Attention many(cache_device(), options);
  for (const int64_t keys : {1900, 510, 570}) {
    CacheCase c = sized(2, keys, 4, 64, {keys, 70});
    c.data = static_cast<uint64_t>(keys);
    CAPTURE(text(c));
    CacheTrial trial(cache_device(), c);
    check_trial(trial, many, c.data);
    if (cache_device().wants_ptx() && keys == 1900) {
      kernels::AttentionOperation o;
      o.depth = 320, o.value_depth = 256;
      CHECK(many.workspace_bytes(trial.arguments()) >
            kernels::AttentionParts::bytes(o, 2 * 4, 2 * kernels::kGroupOfParts));
    }
  }
}

// If there are no lengths, all heads of one query are rows of one block, whatever their number.
TEST_CASE("caches without lengths") {
  for (const auto& [queries, heads] : {std::pair<int64_t, int64_t>{1, 20}, {1, 70}, {3, 12}}) {
    CacheCase c = sized(queries, 150, heads, 0, {150, 150});
    c.has_lengths = false;
    check_case(c);
  }
}

TEST_CASE("random calls of latent keys") {
  for (size_t i = 0; i < count; ++i) {
    std::mt19937_64 random(seed * 1000 + i);
    if (only >= 0 && static_cast<size_t>(only) != i) continue;
    const auto any = [&](int64_t least, int64_t most) {
      return std::uniform_int_distribution<int64_t>(least, most)(random);
    };
    const auto one_of = [&](std::initializer_list<int64_t> all) {
      return all.begin()[any(0, static_cast<int64_t>(all.size()) - 1)];
    };
    const int64_t batches = any(1, 4), keys = any(1, 400);
    CacheCase c = sized(one_of({1, 1, 2, 3, 5, 30}), keys, one_of({1, 3, 8, 16, 16, 40, 64, 128}),
                        one_of({0, 8, 16, 24, 64, 64, 128}), {});
    for (int64_t b = 0; b < batches; ++b) c.lengths.push_back(any(0, keys));
    c.p.type = any(0, 2) == 0 ? DType::f16 : DType::bf16;
    if (any(0, 3) == 0) c.p.depth = 576, c.p.value_depth = 512;
    if (c.p.type == DType::bf16 && any(0, 3) == 0) c = in_bytes(c);
    c.p.causal = any(0, 2) != 0;
    c.p.left = any(0, 2) == 0 ? any(0, 150) : -1;
    c.p.scale = any(0, 1) == 0 ? 0.2F : 0;
    c.has_tree = any(0, 2) == 0;
    c.data = seed * 77 + i;
    CAPTURE(i);
    check_case(c);
  }
}

TEST_CASE("what of latent keys is refused") {
  CacheTrial trial(cache_device(), sized(1, 100, 4, 16, {50, 100}));
  const auto refused = [&](auto&& change, const char* words) {
    AttentionArguments p = trial.arguments();
    change(p);
    CHECK_ERROR(attention()(p), words);
  };
  refused([](auto& p) { p.value_depth = 192; },
          "Q and K have 320 columns, and V has 192, but Q and K must have up to 256");
  refused([](auto& p) { p.depth = 448, p.value_depth = 384; }, "Q and K have 448 columns, and V has 384");
  refused([](auto& p) { p.v = p.k; },
          "V is given with keys of 320 columns, whose first 256 are the values: leave V out");
  refused([](auto& p) { p.key_heads = 2; }, "2 heads of keys of 320 columns");
  refused([](auto& p) { p.page = 12; }, "pages have 12 rows with values that are the first columns of keys");
  refused([](auto& p) { p.softcap = 1; },
          "softcap or dropout cannot be used with values that are the first columns");
  refused([](auto& p) { p.sinks = p.lse; },
          "sinks cannot be used with values that are the first columns of keys");
  const char* bytes = "over rows of 656 bytes, but such rows are for bf16 and 576 columns";
  refused([](auto& p) { p.cache_type = DType::e4m3; }, bytes);
  const auto refused_in_bytes = [&](auto&& change, const char* words) {
    refused(
        [&](auto& p) {
          p.cache_type = DType::e4m3, p.depth = 576, p.value_depth = 512;
          change(p);
        },
        words);
  };
  refused_in_bytes([](auto& p) { p.type = DType::f16; }, bytes);
  refused_in_bytes([](auto& p) { p.k_scale = p.v_scale = p.lse; },
                   "k_scale or v_scale is given with keys that are rows of 656 bytes");
  refused_in_bytes([](auto& p) { p.page_scales = true; },
                   "scales of pages cannot be used with values that are the first");
  refused_in_bytes([](auto& p) { p.query_type = DType::e4m3; },
                   "Q of e4m3 cannot be used with values that are the first");
  refused([](auto& p) { p.depth = 600; }, "depth = 600; it must be 1 to 576");
  // Other keys have separate values.
  refused([](auto& p) { p.depth = p.value_depth = 256; }, "V of bf16: 16 x 256 elements");
  kernels::AttentionGradient gradient(cache_device());
  kernels::AttentionGradientArguments g;
  static_cast<AttentionArguments&>(g) = trial.arguments();
  CHECK_ERROR(gradient(g),
              "the first of the 320 columns of K are the values, but such attention has no gradient");
}

// A NaN in a query must make only its own row NaN, even in the CTA's next work.
TEST_CASE("the next work after a row that is NaN") {
  CacheTrial trial(cache_device(), sized(1, 500, 16, 64, {500, 500, 300, 60}));
  trial.poison_query(0);
  check_trial(trial, attention(), 3);
}

}  // namespace ptxbuilder::test::mla_test
