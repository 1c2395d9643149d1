// Tests tiles of the matrix product: their names, valid and invalid combinations, and that every choice is
// legal.
#include <doctest/doctest.h>

#include <map>
#include <tuple>

#include "error_kit.h"
#include "kernels/gemm/choice.h"
#include "kernels/gemm/kernel.h"
#include "kernels/gemm/scheduler.h"
#include "ptxbuilder/launch_rule.h"
#include "tuned_rows.h"

namespace ptxbuilder::test::gemm_choice_test {
using namespace kernels;

namespace {

constexpr int kMultiprocessors = 132;

}  // namespace

TEST_CASE("every tuned tile is legal, has its own name, and is chosen for its product") {
  REQUIRE(tuned_rows().size() > 50);
  for (const TunedRow& row : tuned_rows()) {
    CAPTURE(row.tile);
    const GemmTile tile = parse_tile(row.tile);
    CHECK(text(tile) == row.tile);
    CHECK(error_of([&] { CHECK(checked(row.operation(), tile) == tile); }) == "");
    CHECK(text(choose(row.operation(), row.size, kMultiprocessors)) == row.tile);
  }
}

TEST_CASE("sizes that no table has get a legal tile that covers them") {
  for (int64_t m : {1, 17, 128, 1000, 5000})
    for (int64_t n : {8, 200, 3000})
      for (DType type : {DType::bf16, DType::tf32, DType::e4m3, DType::s8}) {
        GemmOperation o;
        o.a = o.b = type;
        if (type == DType::s8) o.d = DType::f32;
        const GemmTile tile = choose(o, {m, n, 512, 1}, kMultiprocessors);
        CAPTURE(text(tile));
        CHECK(error_of([&] { checked(o, tile); }) == "");
        const GemmGrid grid = gemm_grid(tile, m, n, 1, kMultiprocessors);
        CHECK(grid.x % static_cast<uint32_t>(tile.cluster_m) == 0);
        CHECK(grid.x * grid.y * grid.z <= static_cast<uint32_t>(kMultiprocessors * tile.ctas_per_sm));
      }
}

TEST_CASE("the grid's rules yield the grid") {
  struct Values final : RuleValues {
    std::array<uint64_t, 5> sizes;  // M, N, K, batches, groups
    explicit Values(std::array<uint64_t, 5> all) : sizes(all) {}
    uint64_t bits(size_t i) const override { return sizes[i]; }
    uint64_t extent(size_t, size_t) const override { return 0; }
    int64_t multiprocessors() const override { return 114; }
  };
  Signature s;
  s.parameters = {{.name = "M"}, {.name = "N"}, {.name = "K"}, {.name = "batches"}, {.name = "groups"}};
  for (const char* text :
       {"128x256x64_4_2x1", "64x24x64_4_1x1_w1_swap_k3", "64x40x64_4_2x1_w1_k3", "128x256x64_4_s5",
        "128x192x64_5_1x1_pp", "64x32x64_4_1x1_w1_x2", "128x64x64_4_2x4"})
    for (int64_t m : {1, 129, 70000})
      for (int64_t batches : {1, 3, -3}) {
        const GemmTile tile = parse_tile(text);
        GemmOperation operation;
        operation.batched = batches > 1, operation.group_ends = batches < 0;
        batches = std::abs(batches);
        const GemmGrid grid = gemm_grid(tile, m, 520, batches, 114, operation.grouped_rows());
        const auto size = static_cast<uint64_t>(m), count = static_cast<uint64_t>(batches);
        for (const char* multiprocessors : {"multiprocessors", "114"}) {
          const GemmGridRule rule = gemm_grid_rule(operation, tile, multiprocessors);
          CAPTURE(rule.x);
          s.grid = {rule.x, rule.y, rule.z};
          CHECK(GridRule(s).value(Values({size, 520, 64, count, count})) ==
                std::array<uint32_t, 3>{grid.x, grid.y, grid.z});
        }
      }
}

TEST_CASE("candidates come in the order of their predictions") {
  const std::vector<Candidate> all = candidates({}, {2048, 2048, 2048, 1}, kMultiprocessors);
  REQUIRE(all.size() > 100);
  for (size_t i = 1; i < all.size(); ++i)
    CHECK(all[i - 1].prediction.microseconds() <= all[i].prediction.microseconds());
}

TEST_CASE("tiles are divided so that no CTA has more than its share") {
  for (int split : {2, 3, 8, 132})
    for (int64_t ctas : {5, 12, 132})
      for (int64_t tiles = 1; tiles <= 3 * ctas; tiles += ctas > 12 ? 7 : 1)
        for (int64_t depth : {1, 2, 5, 64}) {
          CAPTURE(split);
          CAPTURE(ctas);
          CAPTURE(tiles);
          CAPTURE(depth);
          const TileDivision d = tile_division(tiles, ctas, depth, split);
          CHECK(d.waves * ctas + d.rest == tiles);
          CHECK(d.rest < ctas);
          CHECK(d.groups * d.tiles >= d.rest);
          CHECK((d.groups - 1) * d.tiles < std::max<int64_t>(d.rest, 1));
          CHECK((d.tiles == 1 ? d.groups * d.ctas : d.groups + d.rest) <= ctas);
          CHECK(d.tiles <= d.ctas);
          CHECK((d.tiles == 1 ? d.ctas <= depth : d.tiles < depth));
          CHECK((d.tiles == 1 ? d.ctas <= split : d.ctas == d.tiles + 1));
          // If each tile can have two or more CTAs, and they may share it, no CTA has a whole tile.
          if (d.rest > 0 && 2 * d.rest <= ctas && depth > 1)
            CHECK(d.ctas == std::min({ctas / d.rest, depth, int64_t{split}}));
        }
  // 172 tiles leave a remainder of 40 tiles, and three CTAs share each of them. 222 tiles leave 90, in groups
  // of three tiles for four CTAs. 256 tiles leave 124, which are not divided.
  CHECK(tile_division(172, 132, 448, 4).ctas == 3);
  CHECK(tile_division(222, 132, 448, 2).tiles == 3);
  CHECK(tile_division(256, 132, 448, 2).ctas == 1);
}

TEST_CASE(
    "the shortlist keeps the order, has at most two divided and two whole tiles of the same rows and "
    "columns, and doubts the divided ones") {
  const GemmOperation o;
  auto time = [](const Candidate& c) { return doubted(c); };
  for (const GemmSize& size : {GemmSize{1024, 8192, 28672, 1}, {64, 64, 4096, 1}, {777, 2048, 4096, 1}}) {
    const std::vector<Candidate> all = candidates(o, size, kMultiprocessors),
                                 first = shortlist(o, size, kMultiprocessors, 12);
    REQUIRE(first.size() == 12);
    std::map<std::tuple<int, int, bool, bool, bool>, int> alike;
    for (size_t i = 0; i < first.size(); ++i) {
      const GemmTile& t = first[i].tile;
      CHECK(t.overlaps);
      CHECK(++alike[{t.bm, t.bn, t.swapped, t.pingpong, t.split_last > 1}] <= 2);
      if (i > 0) CHECK(time(first[i - 1]) <= time(first[i]));
    }
    CHECK(first[0].tile == choose(o, size, kMultiprocessors));
    // No omitted tile is better than the first.
    for (const Candidate& c : all) CHECK(time(c) >= time(first[0]));
  }
}

TEST_CASE("CTAs that divide k are in clusters of up to 8, and those through L2 only if no tile is whole") {
  size_t through_l2 = 0, in_cluster = 0;
  for (const GemmSize& size : {GemmSize{432, 672, 13304, 1}, {4632, 32000, 6144, 1}})
    for (const Candidate& c : candidates({}, size, kMultiprocessors)) {
      const GemmTile& t = c.tile;
      const int ctas = t.cluster_m * t.cluster_n;
      if (t.split_k > 1 && ctas > 1) ++in_cluster;
      if (t.split_last == 1 || std::max(t.cluster_m, t.cluster_n) <= 2) continue;
      ++through_l2;
      CHECK(blocks_of(t, size) <= active_clusters(ctas, kMultiprocessors));
    }
  CHECK(through_l2 > 50);
  CHECK(in_cluster > 50);
}

TEST_CASE("a choice says whether the table or the model made it") {
  const GemmOperation o;
  CHECK(choice_of(o, {4096, 4096, 4096, 1}, kMultiprocessors).source == ChoiceSource::table);
  CHECK(choice_of(o, {4096, 4096, 4104, 1}, kMultiprocessors).source == ChoiceSource::model);
  CHECK(choice_of(o, {4096, 4096, 4096, 2}, kMultiprocessors).source == ChoiceSource::model);
}

TEST_CASE(
    "tiles of one wave do not extend beyond the output, others may, and no CTA of a cluster is outside") {
  GemmOperation o;
  const GemmSize hanging = {300, 4096, 4096, 1}, waves = {4095, 8190, 4096, 1}, odd = {4224, 8192, 4096, 1};
  size_t moved = 0, whole = 0;
  for (const GemmSize& size : {hanging, waves, odd})
    for (const Candidate& c : candidates(o, size, kMultiprocessors)) {
      const bool one_wave = tiles_of(c.tile, size) * c.tile.split_k <= kMultiprocessors;
      const auto [rows, columns] = outside(c.tile, size);
      const double empty =
          blocks_of(c.tile, size) * c.tile.cluster_m * c.tile.cluster_n - tiles_of(c.tile, size);
      CHECK(c.tile.inside ==
            (((one_wave && (rows > 0 || columns > 0)) || empty > 0) && c.tile.split_last == 1));
      ++(c.tile.inside ? moved : whole);
    }
  CHECK(moved > 50);
  CHECK(whole > 50);

  TilePlan tile = checked(o, parse_tile("128x96"));
  const double over = predict(o, hanging, tile, 132).microseconds();
  tile.inside = true;
  CHECK(predict(o, hanging, tile, 132).microseconds() < 0.995 * over);
  o.beta = true;
  CHECK_FALSE(choose(o, hanging, 132).inside);
}

TEST_CASE("a prediction grows with the work, and its clock falls if power is the limit") {
  const GemmOperation o;
  const TilePlan tile = checked(o, parse_tile("128x256_2x1"));
  double before = 0;
  for (int64_t k : {64, 512, 4096, 32768}) {
    const Prediction p = predict(o, {4096, 4096, k, 1}, tile, kMultiprocessors);
    CHECK(p.microseconds() > before);
    before = p.microseconds();
  }
  const ModelConstants constants;
  const Prediction large = predict(o, {8192, 8192, 8192, 1}, tile, kMultiprocessors),
                   small = predict(o, {256, 256, 256, 1}, tile, kMultiprocessors);
  CHECK(small.megahertz == constants.clock);
  CHECK(small.watts < 700);
  CHECK(large.watts > 700);
  CHECK(large.megahertz < 0.9 * constants.clock);
  CHECK(clock_of(large.watts, constants) == doctest::Approx(large.megahertz));
  // A known clock replaces that of the model.
  const Prediction known =
      predict(o, {8192, 8192, 8192, 1}, tile, kMultiprocessors, constants, constants.clock);
  CHECK(known.multiply == doctest::Approx(large.multiply * large.megahertz / constants.clock));
  CHECK(known.memory == large.memory);
}

TEST_CASE("an activation is counted if no other warpgroup multiplies meanwhile") {
  const GemmSize size = {4096, 8192, 2048};
  GemmOperation plain, gelu, silu;
  gelu.activation = Activation::gelu;
  silu.activation = Activation::silu;
  const auto seconds = [&](const GemmOperation& o, const char* tile) {
    return predict(o, size, checked(o, parse_tile(tile)), kMultiprocessors).microseconds();
  };
  for (const char* tile : {"128x256x64_4", "128x192x64_5_pp"}) {
    CAPTURE(tile);
    CHECK(seconds(plain, tile) < seconds(silu, tile));
    CHECK(seconds(silu, tile) < seconds(gelu, tile));
  }
  const auto more = [&](const char* tile) { return seconds(gelu, tile) - seconds(plain, tile); };
  CHECK(more("128x192x64_5_pp") < more("128x256x64_4"));
  CHECK(choose(gelu, size, kMultiprocessors).pingpong);
}

TEST_CASE("invalid combinations are refused with advice") {
  struct Case {
    std::string bad, good, phrase;
    DType type = DType::bf16;
    bool k_major = true;
  };
  const Case cases[] = {
      {"96x128", "128x128", "96 rows for 2 warpgroups; each must have a multiple of 64"},
      {"320x64_w1", "256x64", "320 rows; a TMA box can have at most 256"},
      {"128x260", "128x256", "there are 260 columns, but there must be a multiple of 8 up to 256"},
      {"128x264", "128x256", "there are 264 columns, but there must be a multiple of 8 up to 256"},
      {"192x216_w3", "192x208_w3",
       "there are 216 columns, but there must be a multiple of 8 up to 256, or up to 200 with three "
       "consumers"},
      {"128x272", "128x272_2x1",
       "272 columns, 272 for each CTA of the cluster to load; a TMA box can have at most 256"},
      {"128x272_2x1", "128x256_2x1", "272 columns, which need two wgmmas", DType::bf16, false},
      {"128x272x64_5_2x1", "128x272x64_4_2x1", "at most 4 fit"},
      {"128x40", "128x48", "40 columns of integers for a wgmma; 32 and more must be a multiple of 16",
       DType::s8},
      {"192x208x128_3_w3", "192x192x128_3_w3", "104 columns of integers for a wgmma", DType::s8},
      {"128x72", "128x80", "72 columns of an operand that is not k-major", DType::bf16, false},
      {"256x256", "256x192", "need 256 registers a thread"},
      {"128x256x32", "128x256x64", "depth 32; a stage must have a multiple of 128 B along k"},
      {"128x256_3x3", "128x256_2x1", "the cluster is 3 x 3 x 1, but must have 1 to 8 CTAs"},
      {"128x128_2x2_k3", "128x128_2x2_k2", "the cluster is 2 x 2 x 3, but must have 1 to 8 CTAs"},
      {"128x256_0x1", "128x256_1x1", "the cluster is 0 x 1 x 1, but must have 1 to 8 CTAs"},
      {"64x128_pp_k2", "64x128_pp", "split k cannot be used with ping-pong"},
      {"128x128_k2_s3", "128x128_2x1_s3", "a split of the last tiles cannot be used with split k"},
      {"256x176_s2", "256x160_2x1_s2",
       "176 registers a thread, but 2 consumers with a split of the last tiles leave 160"},
      {"64x128_pp_s3", "64x128_s3_w1", "a split of the last tiles cannot be used with ping-pong"},
      {"64x64_w1_s3_x2", "64x64_w1_x2",
       "a split of the last tiles cannot be used with several CTAs on an SM"},
      {"128x64_s3", "128x64_w1", "a split of the last tiles cannot be used with integers", DType::s8},
      {"128x128_s133", "128x128_s132",
       "the last tiles are divided among 133 CTAs, but there must be 1 to 132"},
      {"128x128_g0", "128x128_c8s", "a group must have at least one row or column"},
      {"128x192x64_6_pp", "128x192x64_5_pp", "at most 5 fit"},
      {"128x16_k3", "128x24_k3", "16 columns divided by 3; each CTA must add up at least 8"},
      {"64x128_pp_w3", "64x128_pp", "ping-pong needs two consumers"},
      {"128x256x64_5", "128x256x64_4", "at most 4 fit"},
      {"128x8_3x1", "128x24_3x1",
       "8 rows of the columns' operand loaded by 3 CTAs; each must load the same number"},
      {"128x64_3x1", "128x64_4x1",
       "64 rows of the columns' operand loaded by 3 CTAs; each must load the same number, a multiple of 8",
       DType::bf16, false},
      {"128x256x64_1_k2", "128x256x64_4_k2", "do not fit in its 1 stages"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.bad);
    GemmOperation o;
    o.a = o.b = c.type;
    if (c.type == DType::s8) o.d = DType::f32;
    o.b_k_major = c.k_major;
    CHECK(error_of([&] { checked(o, parse_tile(c.good)); }) == "");
    CHECK(error_of([&] { checked(o, parse_tile(c.bad)); }).find(c.phrase) != std::string::npos);
  }
  // Two CTAs would store the middle one of 15 groups of columns, which is not allowed if the epilogue reads
  // C.
  GemmOperation with_c;
  with_c.beta = true;
  CHECK(error_of([&] { checked({}, parse_tile("128x120_2x1_k2")); }) == "");
  CHECK(error_of([&] { checked(with_c, parse_tile("128x112_2x1_k2")); }) == "");
  CHECK(error_of([&] {
          checked(with_c, parse_tile("128x120_2x1_k2"));
        }).find("120 columns divided by 2, so that two CTAs store some of them") != std::string::npos);
  GemmOperation gate, narrow;
  gate.activation = Activation::silu, gate.use = ActivationUse::gate;
  narrow.d = DType::e4m3;
  for (const GemmOperation& of : {gate, narrow}) {
    CHECK(error_of([&] { checked(of, parse_tile("128x128_2x1_k2")); }) == "");
    CHECK(error_of([&] {
            checked(of, parse_tile("128x120_2x1_k2"));
          }).find("120 columns divided by 2, so that the last CTA's begin at 56 B") != std::string::npos);
  }
  for (const char* name : {"128x256x64_4_g8", "128x256x64_4_c4s", "128x128x64_6_2x1_g16s_pp",
                           "64x64x64_12_w1_s16", "64x64x64_12_pp_nopdl_in"})
    CHECK(text(parse_tile(name)) == name);
  CHECK(error_of([] { parse_tile("128y256"); }).find("is not a number; the form must be") !=
        std::string::npos);
  GemmOperation o;
  CHECK(error_of([&] { checked(o, {}); }) == "");
  CHECK(checked(o, parse_tile("128x64_in")).inside);
  CHECK_FALSE(checked(o, parse_tile("128x64_s2_in")).inside);
  o.beta = true;
  CHECK_FALSE(checked(o, parse_tile("128x64_in")).inside);
  o.a = o.b = DType::e4m3;
  o.a_k_major = false;
  CHECK(error_of([&] { checked(o, {}); }).find("A of e4m3 stored along m") != std::string::npos);
}

TEST_CASE("tiles of groups are chosen by the expected rows, or the expected part of k, of a group") {
  GemmOperation rows, k;
  rows.group_ends = k.group_ends = k.groups_of_k = true;
  k.a_k_major = k.b_k_major = false;
  const GemmTile tile = parse_tile("128x256x64_4");
  CHECK(without_groups(rows, {8192, 4096, 7168, 8}, tile).m == 8192 + 8 / 2 * 128);
  CHECK(without_groups(rows, {64, 4096, 7168, 32}, tile).m == 32 * 128);
  CHECK(without_groups(rows, {3, 4096, 7168, 32}, tile).m == 16 * 128);
  CHECK(without_groups(k, {4096, 7168, 8200, 8}, tile).k == 1025);
  const auto chosen = [](const GemmOperation& o, const GemmSize& size) {
    return choose(o, size, kMultiprocessors);
  };
  const GemmTile large = chosen(rows, {32768, 4096, 7168, 8}), few = chosen(rows, {64, 4096, 7168, 32});
  CHECK(large.bm * large.bn == 128 * 256);
  CHECK((few.swapped ? few.bn : few.bm) <= 64);
  CHECK(chosen(k, {4096, 7168, 8192, 8}).split_last == 1);
  for (const GemmOperation& o : {rows, k})
    for (int64_t groups : {1, 300}) {
      const GemmTile one = chosen(o, {groups, 72, 64, groups});
      CHECK(one == checked(o, one));
    }
}

}  // namespace ptxbuilder::test::gemm_choice_test
