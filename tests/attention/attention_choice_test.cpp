// Tests the choice of attention's tile. Tiles are converted to names and back, invalid combinations must be
// refused, and the choice must be legal for every operation and size.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <random>

#include "error_kit.h"
#include "kernels/attention/choice.h"
#include "ptxbuilder/isa/hopper.h"

namespace ptxbuilder::test::attention_choice_test {
using namespace kernels;

TEST_CASE("a tile's name describes all of it") {
  CHECK(text(AttentionTile{}) == "128x128_2");
  for (const int consumers : {1, 2, 3})
    for (int bits = 0; bits < 64; ++bits) {
      AttentionTile t = {.consumers = consumers, .bn = 16 * consumers, .stages = 3};
      t.extra_value_stages = bits & 1, t.persistent = (bits & 2) != 0, t.turns = (bits & 4) != 0;
      t.late_turns = t.turns && consumers > 1, t.lazy = (bits & 8) == 0, t.whole_blocks = (bits & 16) != 0;
      t.overlaps = (bits & 32) == 0;
      CHECK(parse_attention_tile(text(t)) == t);
    }
  CHECK(text(parse_attention_tile("192x112_2_v3_q2_persistent_ascending_late_eager_whole_nopdl")) ==
        "192x112_2_v3_q2_persistent_ascending_late_eager_whole_nopdl");
  for (const char* wrong : {"", "128", "128x_2", "128x64", "100x64_2", "128x64_2_fast", "128x64x64_2",
                            "128x64_0", "0x64_2", "128x64_2_", "128x64_2_v", "128x64_3_v2"})
    CHECK_ERROR(parse_attention_tile(wrong), "the form must be 128x176_2");
}

TEST_CASE("invalid combinations are refused with advice") {
  AttentionOperation o;
  const auto refused = [&](const AttentionTile& t, const char* words) { CHECK_ERROR(check(o, t), words); };
  CHECK_NOTHROW(check(o, {}));
  refused({.consumers = 4}, "there are 4 consumers, but there must be 1, 2 or 3");
  refused({.bn = 40}, "a block has 40 keys, but must have a multiple of 16 up to 256");
  refused({.consumers = 1, .turns = true}, "turns need two or three consumers");
  refused({.stages = 1}, "there is one stage, but there must be at least two");
  refused({.bn = 256}, "use fewer keys in a block, stages or consumers");
  refused({.bn = 48, .persistent = true},
          "a block of persistent CTAs has 48 keys, but must have at least 64");
  refused({.consumers = 3, .bn = 64, .persistent = true}, "2 stages of values with 3 consumers");
  refused({.late_turns = true}, "a turn can only be passed late if there are turns");
  o.causal = true;
  refused({.whole_blocks = true}, "whole blocks cannot be used with a mask");
  o.packed = true;
  CHECK_NOTHROW(check(o, {.persistent = true}));
  o.heads_in_rows = 2;
  refused({}, "heads in the rows of a block cannot be used with packed keys");
  o.lengths = true;
  CHECK_NOTHROW(check(o, {.consumers = 1, .split = true}));
  o.lengths = false;
  o.packed = false;
  CHECK_NOTHROW(check(o, {}));
  refused({.ascending = true}, "leave out 'ascending'");
  refused({.query_places = 2},
          "there are 2 places for the queries of a consumer, but there must be one, or two if CTAs stay");
  refused({.query_places = 3, .persistent = true}, "3 places for the queries");
  o.heads_in_rows = 12;
  refused({}, "12 heads are in the rows of a block, but the number must be a power of two up to 64");
  o = {.type = DType::f32};
  refused({}, "they must be f16 or bf16");
  o = {.depth = 72};
  refused({}, "a head has 72 columns, but must have a multiple of 16 up to 256");
  o = {.depth = 64, .value_depth = 128};
  refused({}, "V must have no more than Q");
}

TEST_CASE("the choice is legal for every operation and size") {
  const uint64_t seed = std::random_device()();
  INFO("seed ", seed);
  std::mt19937_64 random(seed);
  const auto between = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int i = 0; i < 500; ++i) {
    AttentionOperation o;
    o.depth = static_cast<int>(16 * between(1, 16));
    o.value_depth = static_cast<int>(16 * between(1, o.depth / 16));
    o.packed = between(0, 3) == 0;
    o.lengths = !o.packed && between(0, 2) == 0;
    o.page = o.lengths ? static_cast<int>(8 * between(0, 9)) : 0;
    o.e4m3_products = o.e4m3 = !o.lengths && between(0, 2) == 0;
    if (o.e4m3) o.depth = (o.depth + 31) / 32 * 32, o.value_depth = (o.value_depth + 31) / 32 * 32;
    o.promotes = o.e4m3 && o.value_depth <= 128 && between(0, 1) == 0;
    o.causal = between(0, 1) == 0, o.window = between(0, 3) == 0, o.softcap = between(0, 3) == 0;
    AttentionSize s = {between(1, 1 << between(0, 14)), between(0, 1 << between(0, 14)), between(1, 64),
                       between(1, 8)};
    s.visible = static_cast<int32_t>(s.keys - s.queries + 1);
    s.window_start = s.visible - 100;
    const AttentionTile t = choose_attention(o, s, hopper::multiprocessors);
    CAPTURE(text(t));
    CHECK_NOTHROW(check(o, t));
    CHECK((!t.split || s.heads % key_division(o, s, t, hopper::multiprocessors).teams == 0));
    CHECK((!t.whole_blocks || (s.keys > 0 && s.keys % t.bn == 0)));
    CHECK(predict(o, s, t, hopper::multiprocessors) > 0);
  }
}

TEST_CASE("few queries have their keys divided, so that multiprocessors are busy, and no further than that") {
  const auto ctas = [](int64_t heads, int64_t batches, int64_t keys, int depth) {
    const AttentionOperation o = {.depth = depth, .value_depth = depth, .lengths = true, .heads_in_rows = 4};
    const AttentionSize s = {4, keys, heads, batches};
    const AttentionTile t = choose_attention(o, s, hopper::multiprocessors);
    CHECK(t.split);
    CHECK(2 * (tile_bytes(o, t) + 1024 + hopper::reserved_shared_bytes) <= hopper::sm_shared_bytes);
    const KeyDivision division = key_division(o, s, t, hopper::multiprocessors);
    CHECK(heads % division.teams == 0);
    return division.ctas();
  };
  CHECK(ctas(8, 1, 8192, 128) == 128);  // one CTA for each multiprocessor, since each part must be added
  CHECK(ctas(8, 1, 65536, 128) >= 256);
  CHECK(ctas(8, 1, 8192, 64) == 128);
  CHECK(ctas(8, 16, 8192, 128) >= 256);
  CHECK(ctas(8, 64, 4096, 128) >= 256);
  CHECK(ctas(7, 64, 4096, 128) >= 256);
  CHECK(ctas(8, 1, 10, 128) == 8);
  const AttentionOperation speculation = {.causal = true, .lengths = true, .heads_in_rows = 8};
  const AttentionSize sixteen = {16 * 8, 8192, 8, 1, 1, 1};
  CHECK(choose_attention(speculation, sixteen, hopper::multiprocessors).split);
  AttentionOperation mixed = {.causal = true, .lengths = true, .heads_in_rows = 4};
  mixed.packed = true;
  const AttentionSize prompts = {2048 * 4, 2048, 8, 128, 1, 1};
  const AttentionTile of_mixed = choose_attention(mixed, prompts, hopper::multiprocessors);
  CHECK(of_mixed.split);
  CHECK(key_division(mixed, prompts, of_mixed, hopper::multiprocessors).ctas() >= 256);
  mixed.dropout = true, mixed.heads_in_rows = 1;
  CHECK_FALSE(choose_attention(mixed, prompts, hopper::multiprocessors).split);
  const AttentionOperation prefill = {.lengths = true};
  CHECK_FALSE(choose_attention(prefill, {1024, 2048, 32, 1}, hopper::multiprocessors).split);
}

TEST_CASE("keys that are their own values have one tile, and teams if heads need several blocks") {
  AttentionOperation o;
  o.type = DType::bf16, o.lengths = true, o.page = 64;
  o.depth = 576, o.value_depth = 512;
  o.heads_in_rows = 64;
  const AttentionSize s = {64, 4096, 2, 64, 2};  // 128 heads of one query
  const AttentionTile t = choose_attention(o, s, hopper::multiprocessors);
  CHECK(text(t) == "64x64_2_split");
  const KeyDivision division = key_division(o, s, t, hopper::multiprocessors);
  CHECK(division.teams == 2);  // the blocks of a sequence's heads load its keys at the same time
  CHECK(division.ctas() * 10 > hopper::multiprocessors * 9);
  AttentionTile other = t;
  other.bn = 128;
  CHECK_ERROR(check(o, other), "use the tile 64x64_2_split");
  other = t, other.split = false;
  CHECK_ERROR(check(o, other), "use the tile 64x64_2_split");
  o.depth = 320, o.value_depth = 256;
  CHECK(text(choose_attention(o, s, hopper::multiprocessors)) == "64x64_4_split");
  o.depth = 576, o.value_depth = 512, o.e4m3 = true;  // rows of bytes
  AttentionTile in_bytes = choose_attention(o, s, hopper::multiprocessors);
  CHECK(text(in_bytes) == "64x32_2_c3_split");
  in_bytes.bn = 64;
  CHECK_ERROR(check(o, in_bytes), "use the tile 64x32_2_c2_split");
}

TEST_CASE("if CTAs are persistent, all get the same work: groups make whole rounds") {
  AttentionOperation o;
  o.causal = true;
  AttentionTile t;
  t.persistent = true;
  for (const int64_t queries : {100, 512, 1024, 2048, 3000}) {
    const AttentionSize s = {queries, queries, 64, 64};
    const int64_t heads = heads_in_wave(o, s, t, hopper::multiprocessors), blocks = (queries + 127) / 128;
    CHECK(heads * blocks % hopper::multiprocessors == 0);
  }
  CHECK(heads_in_wave(o, {512, 512, 4, 1}, t, hopper::multiprocessors) == 4);  // there are only 4 heads
  t.persistent = false;
  CHECK(heads_in_wave(o, {512, 4096, 32, 4, 4}, t, hopper::multiprocessors) ==
        32);  // 8 key heads with 2 MiB each
  CHECK(heads_in_wave(o, {512, 1 << 20, 32, 4, 4}, t, hopper::multiprocessors) == 4);
}

TEST_CASE("CTAs of short sequences are persistent and those of long ones are not, as measured") {
  const auto tile_of = [](int depth, int value_depth, bool causal, int64_t length, int64_t heads) {
    AttentionOperation o = {.depth = depth, .value_depth = value_depth, .causal = causal};
    return text(choose_attention(o, {length, length, heads, 16384 / length, 1, 1}, hopper::multiprocessors));
  };
  const auto tile = [&](int depth, bool causal, int64_t length) {
    return tile_of(depth, depth, causal, length, 2048 / depth);
  };
  CHECK(tile(64, false, 512) == "128x176_3_persistent_late");
  CHECK(tile(64, false, 16384) == "192x128_3_turns_whole");
  CHECK(tile(64, true, 512) == "128x128_4_q2_persistent_late");
  CHECK(tile(64, true, 2048) == "128x128_4_q2_persistent_late");
  CHECK(tile(64, true, 4096) == "128x176_3_persistent_late");
  CHECK(tile(64, true, 8192).starts_with("192x128_2"));
  CHECK(tile_of(96, 96, false, 512, 16) == "128x128_3_persistent_whole");
  CHECK(tile_of(96, 96, false, 8192, 16).starts_with("192x112_3"));
  CHECK(tile_of(96, 96, true, 8192, 16) == "192x112_3");
  CHECK(tile_of(80, 80, true, 8192, 16) == "192x112_3");
  CHECK(tile_of(192, 128, false, 16384, 16) == "128x128_2_turns_whole");
  CHECK(tile_of(192, 128, true, 2048, 16) == "128x128_2_persistent_ascending_turns");
  CHECK(tile_of(192, 128, true, 16384, 16).starts_with("128x128_2"));
  CHECK(tile(128, false, 2048) == "128x128_3_persistent_whole");
  CHECK(tile(128, false, 16384).starts_with("128x176_2"));
  CHECK(tile(128, true, 1024) == "128x128_2_v3_q2_persistent_ascending_turns");
  CHECK(tile(128, true, 4096) == "128x128_2_v3_q2_persistent_ascending_turns");
  CHECK(tile(128, true, 16384) == "128x160_2_turns");
  for (const int64_t length : {512, 2048, 16384})
    CHECK(tile(256, false, length) == "128x64_2_v3_persistent_turns_whole");
  CHECK(tile(256, true, 512) == "128x64_2_v3_persistent_ascending_turns");
  CHECK(tile(256, true, 8192) == "128x64_2_v3_persistent_ascending_turns");
}

}  // namespace ptxbuilder::test::attention_choice_test
