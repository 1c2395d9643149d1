// Tests attention with Q, K and V of e4m3: tiles, masks, scales, packed sequences, promoted sums, and refused
// calls. Each call is compared with float64 on poisoned memory, twice, and must produce the same bits.
//
//   attention_e4m3_test [--device=emulator|cuda|auto]
#include <doctest/doctest.h>

#include <array>

#include "attention_trial.h"
#include "error_kit.h"
#include "options.h"
#include "runtime/emulator/emulator.h"
#include "runtime/open_device.h"

namespace ptxbuilder::test::attention_e4m3_test {
using kernels::Attention;
using kernels::AttentionArguments;
using kernels::AttentionOperation;
using kernels::AttentionOptions;
using kernels::AttentionSize;
using kernels::AttentionTile;

namespace {

using attention_trial::Case;
using attention_trial::Trial;

runtime::Device& device() {
  static const std::unique_ptr<runtime::Device> device = runtime::open_device(device_name);
  return *device;
}
bool large() { return !device().wants_ptx(); }

void check_case(Attention& attention, const Case& c) {
  CAPTURE(text(c));
  auto* emulator = dynamic_cast<runtime::Emulator*>(&device());
  Trial trial(device(), c);
  if (emulator) emulator->seed(2 * c.data);
  const std::vector<std::byte> first = trial.run(attention);
  const std::string problem = trial.wrong(first);
  CHECK_MESSAGE(problem.empty(), problem);
  if (emulator) emulator->seed(2 * c.data + 1);
  CHECK_MESSAGE(trial.run(attention) == first, "a second run gives different bits");
}
void check_case(const Case& c) {
  static Attention attention = [] {
    AttentionOptions options;
    if (!large()) options.choose = attention_trial::small_tile, options.multiprocessors = 2;
    return Attention(device(), options);
  }();
  check_case(attention, c);
}

Case sized(int64_t queries, int64_t keys, int64_t heads = 1, int64_t depth = 32) {
  Case c;
  c.e4m3 = true;
  c.p.queries = queries, c.p.keys = keys, c.p.heads = heads, c.p.depth = depth;
  c.p.lse.bytes = 1;  // any size requests lse
  c.data = static_cast<uint64_t>(queries * 131 + keys * 7 + heads);
  return c;
}

// Returns an Attention that uses the given tile.
Attention with_tile(const char* tile) {
  AttentionOptions options;
  options.multiprocessors = 2;
  options.choose = [tile](const AttentionOperation&, const AttentionSize&, int) {
    return kernels::parse_attention_tile(tile);
  };
  return Attention(device(), options);
}

}  // namespace

TEST_CASE("tiles of every depth, whose blocks the four transposing warps share in every way") {
  for (const auto& [depth, value_depth, tile] :
       {std::tuple<int64_t, int64_t, const char*>{128, 128, "128x128_3_c2_persistent_turns"},
        {128, 64, "128x160_2_c2_turns"},
        {64, 64, "192x96_2_c3_turns"},
        {64, 64, "64x224_2_c2_eager"},
        {32, 32, "128x192_2_v3_c2_persistent_late"},
        {96, 96, "64x64_4_c2_q2_persistent"},
        {192, 128, "128x32_2_c2"},
        {256, 256, "128x64_3_c2_turns"}}) {
    CAPTURE(tile);
    Attention attention = with_tile(tile);
    for (const bool causal : {false, true}) {
      Case c = sized(150, 270, 3, depth);
      c.p.value_depth = value_depth, c.p.causal = causal, c.p.type = causal ? DType::bf16 : DType::f16;
      check_case(attention, c);
    }
  }
}

TEST_CASE("sizes from 0 on, and around the ends of blocks") {
  for (const int64_t queries : {0, 1, 63, 65, 129})
    for (const int64_t keys : {0, 1, 31, 32, 33, 64, 65, 129}) check_case(sized(queries, keys, 2, 64));
}

TEST_CASE("masks, softcap, sinks, dropout and heads as rows") {
  for (const auto& [left, right] :
       {std::pair<int64_t, int64_t>{-1, 0}, {-1, 9}, {7, -1}, {20, 3}, {1000, 1000}})
    for (const int64_t queries : {20, 90}) {
      Case c = sized(queries, 100, 4);
      c.p.left = left, c.p.right = right, c.p.key_heads = 2, c.p.batches = 2;
      c.p.softcap = left < 0 ? 3.F : 0.F, c.has_sinks = right != 0, c.dropout = left == 7 ? 0.3F : 0.F;
      check_case(c);
    }
}

TEST_CASE("greatest scores that grow from block to block, beyond every limit of lazy sums") {
  for (const float scale : {0.5F, 2.F, 8.F}) {
    Case c = sized(70, 200, 2, 64);
    c.p.scale = scale;
    check_case(c);
    c.p.keys = 195;  // sums are not lazy
    check_case(c);
  }
}

TEST_CASE("scales of tensors and of heads, which persistent CTAs change between heads") {
  for (const int64_t heads : {3, 4})
    for (const bool of_heads : {false, true}) {
      Case c = sized(70, 100, 2 * heads);
      c.p.key_heads = heads, c.has_sinks = of_heads;
      for (int64_t i = 0; i < (of_heads ? heads : 1); ++i) {
        const auto n = static_cast<float>(i);
        c.q_scale.push_back(0.6F + 0.5F * n);
        c.k_scale.push_back(1.4F - 0.3F * n);
        c.v_scale.push_back(0.3F + n);
      }
      check_case(c);
      c.p.softcap = 4;
      check_case(c);
    }
  // Scores with a scale of 0 are 0, but keys that a mask or the end of a block hides must stay hidden.
  Case zero = sized(70, 100, 4);
  zero.p.key_heads = 2, zero.p.causal = true, zero.has_sinks = true;
  zero.q_scale = {0.F, 1.F}, zero.k_scale = {1.F, 2.F}, zero.v_scale = {1.F, 0.F};
  check_case(zero);
}

TEST_CASE("the author's scores are computed from scaled Q and K") {
  AttentionOptions options;
  if (!large()) options.choose = attention_trial::small_tile, options.multiprocessors = 2;
  options.score.function = [](const RegisterTile<f32>& scores, const kernels::ScorePlace&,
                              const Parameters&) { return scores * f32(1); };
  Attention attention(device(), options);
  Case c = sized(70, 100, 4);
  c.p.key_heads = 2, c.q_scale = {0.5F, 1.5F}, c.k_scale = {1.2F, 0.7F}, c.v_scale = {2.F, 0.1F};
  check_case(attention, c);
}

TEST_CASE("packed sequences, some of them empty") {
  for (const int64_t heads : {3, 4}) {
    Case c = sized(0, 0, heads, 59);
    c.sequences = {{70, 30}, {3, 0}, {0, 9}, {20, 90}, {130, 130}};
    c.p.causal = heads == 4;
    check_case(c);
    c.p.left = 20;
    check_case(c);
  }
}

// Equal scores have exact weights, so that only the rounding of sums remains.
TEST_CASE("promoted sums are those of f32") {
  const int64_t keys = large() ? 16384 : 1000;
  for (const int64_t promote : {1, 64, 100, 256}) {
    Case c = sized(64, keys, 1, 64);
    c.p.promote = promote, c.p.lse.bytes = 0;
    Trial trial(device(), c);
    AttentionArguments p = trial.arguments();
    std::mt19937_64 random(7);
    std::uniform_real_distribution<double> between(1, 2);
    std::vector<uint8_t> values(static_cast<size_t>(keys * 64));
    std::vector<double> means(64);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<uint8_t>(encode(DType::e4m3, between(random)));
      means[i % 64] += decode(DType::e4m3, values[i]) / static_cast<double>(keys);
    }
    const runtime::Buffer zeros = runtime::Buffer::of(device(), std::vector<uint8_t>(64 * 64)),
                          v = runtime::Buffer::of(device(), values);
    p.q.memory = zeros, p.v.memory = v;
    runtime::Buffer o(device(), 64 * 64 * 2);
    p.o = {.memory = o};
    Attention attention(device());
    attention(p);
    device().synchronize();
    const auto got = o.copy_out<uint16_t>();
    for (size_t i = 0; i < got.size(); ++i)
      CHECK(std::abs(decode(DType::f16, got[i]) - means[i % 64]) <= 0x1p-11 * means[i % 64]);
  }
}

TEST_CASE("refused calls, and similar calls that are accepted") {
  Case c = sized(40, 50, 4, 64);
  c.p.key_heads = 2, c.q_scale = c.k_scale = c.v_scale = {1.F, 2.F};
  Trial trial(device(), c);
  Attention attention(device());
  const auto refused = [&](auto&& change, const char* words) {
    AttentionArguments p = trial.arguments();
    CHECK(attention.workspace_bytes(p) == 0);  // without the change, the same call is accepted
    change(p);
    CHECK_ERROR(attention(p), words);
    CHECK_ERROR(attention.workspace_bytes(p), words);
  };
  refused([](auto& p) { p.type = DType::e4m3; }, "O is e4m3, but must be f16 or bf16");
  refused([](auto& p) { p.query_type = DType::e5m2; }, "Q is e5m2, K and V are e4m3, and O is f16");
  refused([](auto& p) { p.cache_type.reset(); },
          "Q is e4m3, K and V are f16, and O is f16; Q, K and V must all");
  refused([](auto& p) { p.query_type.reset(); }, "q_scale is given, but Q is f16");
  refused([](auto& p) { p.q_scale = {}; },
          "k_scale and v_scale are given, but not q_scale; Q, K and V of e4m3 must have all");
  refused([](auto& p) { p.k_scale = p.v_scale = {}; }, "q_scale is given, but not k_scale");
  refused([](auto& p) { p.scales = 3; },
          "3 scales of K and V were given, but there must be one, or one for each of 2 heads");
  refused([](auto& p) { p.promote = -1; }, "promote = -1; it must be 0 to");
  refused([](auto& p) { p.key_lengths = p.lse; }, "lengths of keys are not supported with Q of e4m3");
  Case wide = sized(40, 50, 1, 160);
  wide.p.promote = 64;
  Trial of_wide(device(), wide);
  CHECK_ERROR(attention(of_wide.arguments()), "promote = 64 with V of 160 columns; V must have at most 128");
  Case narrow = sized(0, 0, 1, 48);
  narrow.sequences = {{3, 3}};
  Trial of_narrow(device(), narrow);
  CHECK_ERROR(attention(of_narrow.arguments()),
              "packed sequences of e4m3 with V of 48 columns; it must have at least 49");
  Case halves = sized(40, 50, 1, 64);
  halves.e4m3 = false, halves.p.promote = 64;
  Trial of_halves(device(), halves);
  CHECK_ERROR(attention(of_halves.arguments()), "promote = 64, but Q is f16; it must be e4m3");
}

TEST_CASE("tiles that do not suit products of e4m3") {
  const auto refused = [](auto&& change, const char* tile, const char* words) {
    AttentionOperation o = {.e4m3 = true, .e4m3_products = true, .depth = 96, .value_depth = 96};
    check(o, kernels::parse_attention_tile("128x128_3_c2_persistent"));
    change(o);
    CHECK_ERROR(check(o, kernels::parse_attention_tile(tile)), words);
  };
  const auto as_it_is = [](auto&) {};
  refused(as_it_is, "128x128_3_persistent", "a cache has 0 stages with K and V of e4m3");
  refused(as_it_is, "128x96_3_c2_persistent",
          "blocks of 96 keys and V of 96 columns; the keys must be a multiple of 64");
  refused(as_it_is, "64x64_3_c2_split", "with lengths of keys, pages, or keys that CTAs divide (split)");
  refused(as_it_is, "192x256_3_c2_persistent", "the tiles have ");
  refused([](auto& o) { o.lengths = true; }, "64x64_3_c2", "with lengths of keys");
  refused([](auto& o) { o.e4m3 = false; }, "128x128_3_persistent",
          "Q is e4m3, but K and V have a different type");
  refused([](auto& o) { o.promotes = true, o.depth = o.value_depth = 160; }, "64x64_3_c2",
          "V has 160 columns with promotion of sums");
  refused([](auto& o) { o.promotes = true, o.e4m3 = o.e4m3_products = false; }, "64x64_3",
          "promotion of sums needs Q of e4m3");
}

}  // namespace ptxbuilder::test::attention_e4m3_test
