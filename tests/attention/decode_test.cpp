// Tests attention of a few queries over caches: batches of different lengths, pages that a table locates, and
// keys that CTAs divide among themselves. Each call is compared with float64 on poisoned memory, twice, and
// must produce the same bits.
//
//   decode_test [--device=emulator|cuda|auto] [--count=N] [--seed=S] [--only=INDEX]
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "cache_kit.h"
#include "error_kit.h"
#include "kernels/attention/attention.h"
#include "options.h"

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

// Blocks are small, so that few keys make several blocks. CTAs divide the keys if there are few queries.
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
    if (cache_device().wants_ptx()) options.choose = small_tile, options.multiprocessors = 8;
    return Attention(cache_device(), options);
  }();
  return attention;
}

CacheCase sized(int64_t queries, int64_t keys, int64_t heads, int64_t key_heads, int64_t page,
                std::vector<int64_t> lengths) {
  CacheCase c;
  c.p.queries = queries, c.p.keys = keys, c.p.heads = heads, c.p.key_heads = key_heads;
  c.p.depth = 16, c.p.page = page, c.p.causal = true;
  c.lengths = std::move(lengths);
  return c;
}

// Checks a case with its sequence lengths, and then with the lengths in reverse order.
void check_reversed(CacheCase c) {
  CacheTrial trial(cache_device(), c);
  check_trial(trial, attention(), c.data);
  std::ranges::reverse(c.lengths);
  trial.lay(c.lengths);
  check_trial(trial, attention(), c.data + 1);
}

}  // namespace

TEST_CASE("lengths from 0 on, in one piece and in pages") {
  for (const int64_t page : {0, 8, 16, 24, 64})
    for (const int64_t keys : {100, 200}) {
      CacheCase c = sized(1, keys, 4, 2, page, {0, 1, 15, 16, 17, 64, 99, 100});
      c.data = static_cast<uint64_t>(page + keys);
      CAPTURE(text(c));
      CacheTrial trial(cache_device(), c);
      check_trial(trial, attention(), c.data);
    }
}

// A prepared call, like a captured graph, must read the current lengths and tables.
TEST_CASE("lengths and tables that change between calls of one form") {
  CacheCase c = sized(3, 200, 6, 3, 16, {200, 3, 90});
  CacheTrial trial(cache_device(), c);
  for (const std::vector<int64_t>& lengths :
       {std::vector<int64_t>{200, 3, 90}, {5, 200, 199}, {0, 64, 1}, {1, 2, 3}}) {
    trial.lay(lengths);
    check_trial(trial, attention(), static_cast<uint64_t>(lengths[0] + 7));
  }
}

// There are more sequences than a warp has lanes. Some heads share a team, and others have their own. CTAs
// divide the keys into pieces that end anywhere.
TEST_CASE("lengths of a long tail, which CTAs share evenly") {
  for (const auto& [heads, key_heads, batches] : {std::array<int64_t, 3>{4, 2, 70}, {3, 3, 33}, {10, 5, 5}}) {
    std::mt19937_64 random(seed * 31 + static_cast<uint64_t>(batches));
    std::uniform_real_distribution<double> any;
    CacheCase c = sized(1, 400, heads, key_heads, batches % 2 == 0 ? 16 : 0, {});
    for (int64_t b = 0; b < batches; ++b)
      c.lengths.push_back(std::lround(std::pow(any(random), b % 7 == 0 ? 1 : 6) * 400));
    c.data = static_cast<uint64_t>(batches);
    CAPTURE(text(c));
    check_reversed(c);
  }
}

// Some heads have a number of columns that is not a multiple of 32. Each head has its own scale, or all heads
// share one.
TEST_CASE("caches of e4m3") {
  int64_t at = 0;
  for (const int64_t scales : {0, 1, 3})
    for (const auto& [depth, value_depth, page] :
         {std::array<int64_t, 3>{32, 32, 16}, {48, 16, 0}, {96, 64, 8}, {160, 160, 32}}) {
      CacheCase c = sized(1 + at % 3, 100, 6, 3, page, {100, 0, 33, 7 + at % 20});
      c.p.type = at++ % 2 == 0 ? DType::bf16 : DType::f16;
      c.p.cache_type = DType::e4m3;
      c.p.depth = depth, c.p.value_depth = value_depth;
      c.has_sinks = at % 3 == 0;
      for (int64_t i = 0; i < scales; ++i)
        c.k_scale.push_back(0.3F + 0.6F * static_cast<float>(i)),
            c.v_scale.push_back(1.9F - 0.7F * static_cast<float>(i));
      c.data = static_cast<uint64_t>(at);
      CAPTURE(text(c));
      CacheTrial trial(cache_device(), c);
      check_trial(trial, attention(), c.data);
    }
  // Scores with a scale of 0 are 0, even if the block hides later keys. Values with a scale of 0 are 0.
  CacheCase zero = sized(2, 100, 6, 3, 16, {100, 0, 33, 7});
  zero.p.cache_type = DType::e4m3, zero.p.depth = 32, zero.has_sinks = true;
  zero.k_scale = {0.F, 1.F, -0.5F}, zero.v_scale = {1.F, 0.F, 1.F};
  CacheTrial of_zero(cache_device(), zero);
  check_trial(of_zero, attention(), 4);
  // CTAs do not divide the keys of blocks of 64 queries.
  CacheCase c = sized(70, 90, 2, 2, 0, {90, 80});
  c.p.cache_type = DType::e4m3, c.p.depth = 32;
  CacheTrial trial(cache_device(), c);
  check_trial(trial, attention(), 3);
}

// Each page has a scale, and a call must use the right scales after tables change. With pages of up to 8
// rows, a block that is converted at once contains several pages.
TEST_CASE("scales of pages") {
  uint64_t at = 0;
  for (const int64_t page : {64, 16, 48, 8, 3, 1})
    for (const bool is_of_heads : {false, true}) {
      CacheCase c = sized(at % 3 == 0 ? 3 : 1, 130, 4, 2, page, {130, 0, 33, 7});
      c.p.type = at % 2 == 0 ? DType::bf16 : DType::f16;
      c.p.cache_type = DType::e4m3;
      c.p.depth = page == 48 ? 160 : 64, c.p.value_depth = at % 4 == 1 ? 32 : 0;
      c.scales_of_page = is_of_heads ? 2 : 1;
      c.has_sinks = at % 3 == 1;
      if (at % 3 == 0) c.query_counts = {3, 1, 0, 2};
      c.data = ++at;
      CAPTURE(text(c));
      check_reversed(c);
    }
}

// Threads copy the rows of these pages, and each thread copies 16 bytes of some rows. A key after the last,
// or in a page that does not exist, reads as zeros.
TEST_CASE("pages of any number of rows") {
  uint64_t at = 0;
  for (const int64_t page : {1, 2, 3, 4, 12})
    for (const bool is_e4m3 : {false, true}) {
      CacheCase c = sized(at % 2 == 0 ? 1 : 70, 90, 4, 2, page, {90, 0, 1, 40});
      c.p.depth = is_e4m3 ? 64 : 48, c.p.value_depth = at % 3 == 0 ? 32 : 0;
      c.p.type = at % 3 == 0 ? DType::bf16 : DType::f16;
      if (is_e4m3) c.p.cache_type = DType::e4m3;
      c.data = ++at;
      CAPTURE(text(c));
      CacheTrial trial(cache_device(), c);
      check_trial(trial, attention(), c.data);
    }
  CacheCase wide = sized(1, 60, 1, 1, 2, {60, 33});
  wide.p.depth = 160;
  CacheTrial trial(cache_device(), wide);
  check_trial(trial, attention(), 5);
}

// In a call, some sequences have queries for all of their keys, others only for the last key, or none.
TEST_CASE("mixed batches: packed queries over caches") {
  uint64_t at = 0;
  for (const int64_t page : {0, 16, 5})
    for (const bool is_e4m3 : {false, true})
      for (const bool is_causal : {true, false}) {
        CacheCase c = sized(130, at % 5 == 0 ? 150 : 152, 4, 2, page, {130, 77, 0, 1, 149, 40});
        c.query_counts = {130, 1, 0, 1, 3, 70};  // the last sequence has more queries than keys
        c.p.depth = is_e4m3 ? 64 : 48, c.p.causal = is_causal;
        c.p.type = at % 2 == 0 ? DType::bf16 : DType::f16;
        c.p.left = at % 3 == 0 ? 20 : -1;
        c.has_sinks = at % 4 == 0;
        if (is_e4m3) c.p.cache_type = DType::e4m3, c.k_scale = {0.5F, 1.5F}, c.v_scale = {2.F, 0.3F};
        c.data = ++at;
        CAPTURE(text(c));
        CacheTrial trial(cache_device(), c);
        check_trial(trial, attention(), c.data);
        trial.lay({3, 150, 150, 0, 8, 70});
        check_trial(trial, attention(), c.data + 100);
      }
}

// There are more sequences than a warp has lanes, and one sequence has more blocks of queries than that. Its
// 300 queries are 19 blocks of 64 rows with four heads in rows, and 38 blocks with eight heads.
TEST_CASE("mixed batches of many sequences, and of long ones") {
  for (const auto& [heads, key_heads, left] : {std::array<int64_t, 3>{4, 1, -1}, {16, 2, 50}, {3, 3, -1}}) {
    std::mt19937_64 random(seed * 57 + static_cast<uint64_t>(heads));
    const auto any = [&](int64_t most) { return std::uniform_int_distribution<int64_t>(0, most)(random); };
    CacheCase c = sized(300, 320, heads, key_heads, 16, {});
    for (int64_t b = 0; b < 40; ++b) {
      const int64_t queries = b == 3 || b == 35 ? 300 - b : any(4) == 0 ? 0 : any(2) + 1;
      c.query_counts.push_back(queries);
      c.lengths.push_back(any(3) == 0 ? any(320) : any(20));
    }
    c.lengths[3] = 310, c.p.left = left;
    c.data = static_cast<uint64_t>(heads);
    CAPTURE(text(c));
    check_reversed(c);
  }
}

// Masks define which of the last keys a query sees. The cases are blocks with heads in rows, blocks with one
// query per row, pages, fewer keys than queries (so that some queries see nothing), and packed queries of
// sequences.
TEST_CASE("trees of tokens") {
  uint64_t at = 0;
  for (const auto& [queries, heads, key_heads, page] :
       {std::array<int64_t, 4>{1, 4, 2, 0}, {5, 4, 2, 16}, {16, 8, 1, 5}, {32, 3, 3, 0}, {32, 16, 1, 8}})
    for (const bool is_packed : {false, true}) {
      CacheCase c = sized(queries, 130, heads, key_heads, page, {130, 0, 1, 33, 60, 16});
      c.has_tree = true;
      c.p.causal = at % 3 == 0;
      c.p.left = at % 4 == 1 ? 40 : -1;
      c.has_sinks = at % 4 == 2;
      if (is_packed) c.query_counts = {queries, 1, 0, (queries + 1) / 2, queries, 3 % (queries + 1)};
      c.data = ++at;
      CAPTURE(text(c));
      check_reversed(c);
    }
}

// The offsets may specify that no sequence has a query, even if there are rows of queries.
TEST_CASE("a mixed batch without queries") {
  CacheTrial trial(cache_device(), [] {
    CacheCase c = sized(2, 40, 4, 2, 16, {40, 7});
    c.query_counts = {2, 1};
    return c;
  }());
  const runtime::Buffer none = runtime::Buffer::of(cache_device(), std::array<uint32_t, 3>{});
  AttentionArguments p = trial.arguments();
  p.query_offsets = none;
  const runtime::Buffer workspace(cache_device(), std::max<size_t>(attention().workspace_bytes(p), 16));
  p.workspace = workspace;
  runtime::Buffer o(cache_device(), p.o.memory.bytes);
  o.fill(0x5a);
  p.o.memory = o;
  attention()(p);
  cache_device().synchronize();
  std::vector<std::byte> after(o.bytes());
  o.copy_out(after);
  CHECK(std::ranges::all_of(after, [](std::byte b) { return b == std::byte{0x5a}; }));
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
    CacheCase c = sized(one_of({1, 1, 2, 3, 5, 9, 70}), keys, key_heads * group, key_heads,
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
      if (c.p.page > 0 && any(0, 1) == 0) c.scales_of_page = any(0, 1) == 0 ? 1 : key_heads;
    }
    if (c.p.cache_type && c.scales_of_page == 0) {
      for (int64_t head = 0; head < key_heads; ++head)
        c.k_scale.push_back(std::uniform_real_distribution<float>(0.2F, 2)(random)),
            c.v_scale.push_back(std::uniform_real_distribution<float>(0.01F, 20)(random));
    }
    const int64_t columns = c.p.value_depth != 0 ? c.p.value_depth : c.p.depth;
    if (any(0, 2) == 0 && (!c.p.cache_type || columns % 32 == 0)) {
      c.query_counts.push_back(c.p.queries);
      for (int64_t b = 1; b < batches; ++b) c.query_counts.push_back(any(0, c.p.queries));
    }
    c.has_tree = c.p.queries <= 32 && any(0, 2) == 0;
    c.data = seed * 77 + i;
    CAPTURE(i);
    CAPTURE(text(c));
    CacheTrial trial(cache_device(), c);
    check_trial(trial, attention(), c.data);
  }
}

TEST_CASE("what of caches is refused") {
  CacheTrial trial(cache_device(), sized(1, 100, 4, 2, 16, {50, 100}));
  const auto refused = [&](auto&& change, const char* words) {
    AttentionArguments p = trial.arguments();
    change(p);
    CHECK_ERROR(attention()(p), words);
  };
  refused([](auto& p) { p.page = -1, p.pages = 1; }, "page = -1; it must be 0 to");
  refused([](auto& p) { p.page = 0; },
          "block_table is given, but page is 0; it must be the number of rows of a page");
  refused([](auto& p) { p.block_table = {}; }, "pages of 16 rows need a block_table");
  refused([](auto& p) { p.key_lengths = {}; }, "block_table needs key_lengths");
  refused([](auto& p) { p.block_table.bytes = 8; }, "block_table has 8 B");
  refused([](auto& p) { p.tree_mask = p.key_lengths, p.queries = 33; },
          "tree_mask is given with 33 queries of a sequence, but there must be at most 32");
  refused([](auto& p) { p.tree_mask = p.key_lengths, p.page = 0, p.block_table = p.key_lengths = {}; },
          "tree_mask needs key_lengths");
  refused([](auto& p) { p.tree_mask = p.key_lengths, p.tree_mask.bytes = 4; }, "tree_mask has 4 B");
  refused([](auto& p) { p.table_stride = int64_t{1} << 31; }, "table_stride = 2147483648; it must be 0 to");
  refused([](auto& p) { p.key_lengths.bytes = 4; }, "key_lengths has 4 B");
  refused([](auto& p) { p.causal = false, p.top_left = true; },
          "top_left cannot be used with lengths of keys");
  refused([](auto& p) { p.query_offsets = p.key_offsets = p.key_lengths; },
          "key_offsets and key_lengths cannot both be given");
  refused([](auto& p) { p.query_offsets = p.key_lengths, p.query_rows = 2; }, "query_offsets has 8 B");
  refused([](auto& p) { p.pages = 1000; }, "K of");
  refused([](auto& p) { p.cache_type = DType::e5m2; }, "K and V are e5m2, but Q is f16");
  refused([](auto& p) { p.k_scale = p.v_scale = p.key_lengths; }, "k_scale is given, but K is f16");
  refused([](auto& p) { p.cache_type = DType::e4m3, p.k_scale = p.key_lengths; },
          "k_scale is given, but not v_scale");
  refused([](auto& p) { p.cache_type = DType::e4m3, p.k_scale = p.v_scale = p.key_lengths, p.scales = 3; },
          "3 scales of K and V were given, but there must be one, or one for each of 2 heads");
  refused([](auto& p) { p.page_scales = true; }, "scales of pages (page_scales) with 17 pages, no k_scale");
  refused(
      [](auto& p) {
        p.cache_type = DType::e4m3, p.page_scales = true, p.k_scale = p.v_scale = p.key_lengths;
      },
      "k_scale has 8 B");
  refused([](auto& p) { p.key_lengths = {p.lse.address, p.lse.bytes}; }, "lse overlaps key_lengths");
}

}  // namespace ptxbuilder::test::decode_test
