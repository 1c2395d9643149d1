// Tests the files that `ptxb tune` reads and writes, the model that is fitted to measured times, and the
// explanation of a choice.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "error_kit.h"
#include "kernels/bench/report.h"
#include "kernels/measure/drawn_shapes.h"
#include "kernels/tune/choice_report.h"
#include "kernels/tune/model_fit.h"
#include "kernels/tune/tune_report.h"
#include "kernels/tune/tuned_table.h"
#include "ptxbuilder/file_text.h"
#include "tuned_rows.h"

namespace ptxbuilder::test::tune_test {
using namespace bench;

namespace {

std::string row(const std::string& types, int m, int n, int k, const std::string& tile) {
  return "PTXBUILDER_TUNED(" + types + ", " + std::to_string(m) + ", " + std::to_string(n) + ", " +
         std::to_string(k) + ", \"" + tile + "\")\n";
}

const std::string kBf16 = "bf16, bf16, \"TN\"", kF16 = "f16, f32, \"NN\"";

Entry entry(const std::string& tile, double microseconds) {
  Entry e;
  e.contender = "candidate";
  e.configuration = tile + ", predicted 9.0 us";
  e.ours = true;
  e.samples.assign(10, Sample{.microseconds = microseconds, .telemetry = {}});
  return e;
}

ShapeResult result(std::vector<Entry> entries) {
  ShapeResult r;
  GemmProblem p;
  p.m = p.n = p.k = 4096;
  r.problem = p;
  r.entries = std::move(entries);
  return r;
}

}  // namespace

TEST_CASE("a row replaces that of its product, and all other lines are unchanged") {
  const std::string before = "// Tiles that were the fastest.\n\n" + row(kBf16, 64, 64, 64, "64x8x64_2"),
                    after = row(kBf16, 128, 64, 64, "64x16x64_2") + "// end\n";
  const std::string old = row(kBf16, 64, 128, 64, "64x24x64_2"),
                    fresh = row(kBf16, 64, 128, 64, "64x32x64_2");
  CHECK(merge_tuned(before + old + after, fresh) == before + fresh + after);
  CHECK(merge_tuned(before + old + after, old) == before + old + after);
  CHECK(merge_tuned(before + old + after, "// nothing\n") == before + old + after);
  // Products with the same sizes but other types or another layout are different products.
  const std::string other = row(kF16, 64, 128, 64, "64x40x64_2"),
                    transposed = row("bf16, bf16, \"NN\"", 64, 128, 64, "64x48x64_2");
  CHECK(merge_tuned(before + old + after, other + transposed) == before + old + after + other + transposed);
}

TEST_CASE("a new row is inserted in the order of m, n and k among those of its types and layout") {
  const std::string small = row(kBf16, 64, 64, 64, "a"), large = row(kBf16, 4096, 512, 64, "b"),
                    other = row(kF16, 1, 1, 1, "c");
  const std::string table = small + large + other;
  auto merged = [&](int m, int n, int k) { return merge_tuned(table, row(kBf16, m, n, k, "x")); };
  CHECK(merged(64, 64, 32) == row(kBf16, 64, 64, 32, "x") + table);
  CHECK(merged(64, 64, 128) == small + row(kBf16, 64, 64, 128, "x") + large + other);
  CHECK(merged(512, 8192, 8192) ==
        small + row(kBf16, 512, 8192, 8192, "x") + large + other);  // ordered by number
  CHECK(merged(8192, 1, 1) == small + large + row(kBf16, 8192, 1, 1, "x") + other);
  CHECK(merge_tuned("", small + other) == small + other);
  CHECK(merge_tuned("// no end of line", small) == "// no end of line\n" + small);
}

TEST_CASE("an invalid row is refused with its line") {
  const std::string good = row(kBf16, 64, 64, 64, "64x8x64_2");
  CHECK(error_of([&] { merge_tuned(good, good); }) == "");
  for (const char* bad :
       {"PTXBUILDER_TUNED(bf16, bf16, \"TN\", 64, 64, \"64x8x64_2\")",
        "PTXBUILDER_TUNED(bf17, bf16, \"TN\", 64, 64, 64, \"64x8x64_2\")",
        "PTXBUILDER_TUNED(bf16, bf16, \"TN\", 64, 64, 64, \"64x8x64_2\") // fast", "PTXBUILDER_TUNED"})
    CHECK_ERROR(merge_tuned(good + bad + "\n", ""),
                "line 2 of the tuned table is not a row: 'PTXBUILDER_TUNED");
}

TEST_CASE("tiles are sorted by their times, each once, with their limits") {
  Entry wrong = entry("128x64x64_8", 1), slow = entry("64x8x64_16_w1", 900), refused;
  wrong.wrong = "D[0,0] = 1, should be 2";
  refused.contender = "candidate 3";
  refused.left_out = "the model has no 3 tiles for it";
  const ShapeResult r = result({entry("128x256x64_4", 200), wrong, slow, refused,
                                entry("128x256x64_4_2x1", 190), entry("128x256x64_4", 195)});
  const std::vector<TunedTile> tiles = tuned_tiles(r, "128x256x64_4", 132);
  REQUIRE(tiles.size() == 5);
  CHECK(tiles[0].tile == "128x256x64_4_2x1");
  CHECK(tiles[1].tile == "128x256x64_4");
  CHECK(tiles[1].microseconds == 195);
  CHECK(tiles[1].chosen);
  CHECK_FALSE(tiles[0].chosen);
  CHECK(tiles[2].tile == "64x8x64_16_w1");
  CHECK(tiles[3].problem == "WRONG: D[0,0] = 1, should be 2");
  CHECK(tiles[4].tile == "candidate 3");
  CHECK(limiting_term(*tiles[0].terms) == "multiply");
  kernels::Prediction p;
  p.l2 = 2, p.multiply = 1, p.overhead = 9;
  CHECK(limiting_term(p) == "l2");
  p.memory = 3;
  CHECK(limiting_term(p) == "memory");
  RunResult run;
  run.results = {r};
  CHECK(tuned_rows(run) == row(kBf16, 4096, 4096, 4096, "128x256x64_4_2x1"));

  const std::string table = tune_table(r.problem, tiles);
  CHECK(table.find("4096x4096x4096 bf16 -> bf16 TN\n") == 0);
  CHECK(table.find("128x256x64_4 (chosen now)             195.00") != std::string::npos);
  CHECK(table.find("candidate 3                      the model has no 3 tiles for it\n") !=
        std::string::npos);
  const auto json = nlohmann::json::parse(tune_json(r.problem, tiles));
  CHECK(json["tiles"][0]["median_us"] == 190);
  CHECK(json["tiles"][0]["limited_by"] == "multiply");
  CHECK(json["tiles"][3]["problem"] == "WRONG: D[0,0] = 1, should be 2");
  CHECK_FALSE(json["tiles"][3].contains("median_us"));
}

TEST_CASE("the times that the model was fitted to are read") {
  const std::vector<TimedProduct> products =
      parse_tile_times(file_text(PTXBUILDER_TEST_DIR "/../kernels/gemm/fit_times.txt"));
  CHECK(products.size() > 600);
  CHECK(fit_of(products, {}).error < 0.2);
}

TEST_CASE("times of tiles are written and read in one format, and invalid lines are refused") {
  ShapeResult r =
      result({entry("128x256x64_4", 200), entry("128x256x64_4", 201), entry("64x128x64_8_pp_nopdl", 250)});
  for (Entry& e : r.entries)
    for (Sample& s : e.samples) s.telemetry.sm_mhz = 1500;
  r.entries.push_back(r.entries[0]);
  r.entries.back().contender = "cuBLASLt";
  r.entries.back().ours = false;
  RunResult run;
  run.reference = "cuBLASLt";
  run.results = {r};
  const std::string text = tile_times(run);
  CHECK(text ==
        "bf16 bf16 TN 4096 4096 4096 MHz=1500 128x256x64_4=200 64x128x64_8_pp_nopdl=250 cuBLASLt=200\n");
  const std::vector<TimedProduct> products = parse_tile_times("# what was measured\n\n" + text);
  REQUIRE(products.size() == 1);
  CHECK(products[0].size.k == 4096);
  CHECK(products[0].operation.d == DType::bf16);
  CHECK(products[0].megahertz == 1500);
  CHECK(products[0].reference == 200);
  REQUIRE(products[0].tiles.size() == 2);
  CHECK(kernels::text(products[0].tiles[1].tile) == "64x128x64_8_pp_nopdl");
  CHECK(products[0].tiles[1].microseconds == 250);
  for (const char* bad : {"bf16 bf16 TN 8 8", "bf17 bf16 TN 8 8 8 64x8=1", "bf16 bf16 TN 8 0 8 64x8=1",
                          "bf16 bf16 TN 8 8 8 64x8", "bf16 bf16 TN 8 8 8 64x8=-1"})
    CHECK_ERROR(parse_tile_times("# one\n" + std::string(bad)), "line 2 of the times: '");
  CHECK_ERROR(parse_tile_times("bf16 bf16 TN 8 8 8 64x9_w1=1"), "line 1 of the times: gemm 64x9");
}

namespace {

// Returns the times of products according to a model with other constants.
std::vector<TimedProduct> made_by(const kernels::ModelConstants& constants, Purpose purpose, int count) {
  std::vector<TimedProduct> products;
  for (const Shape& s : drawn_shapes(purpose, 5, count)) {
    TimedProduct p;
    p.size = {s.m, s.n, s.k, 1};
    for (const kernels::Candidate& c : kernels::shortlist(p.operation, p.size, 132, 6))
      p.tiles.push_back({c.tile, predict(p.operation, p.size, c.tile, 132, constants).microseconds()});
    products.push_back(std::move(p));
  }
  return products;
}

}  // namespace

TEST_CASE("a fit finds constants that explain the times, including held-out ones") {
  const kernels::ModelConstants now;
  kernels::ModelConstants other;
  other.memory_bytes *= 0.7;
  other.launch *= 2;
  other.step_clocks *= 4;
  const std::vector<TimedProduct> given = made_by(other, Purpose::fit, 24);
  const Fit before = fit_of(given, now), exact = fit_of(given, other);
  CHECK(before.error > 0.1);
  CHECK(exact.error < 1e-6);
  CHECK(exact.behind == 0);
  const kernels::ModelConstants found = fitted(given, now);
  CHECK(fit_of(given, found).error < 0.2 * before.error);
  CHECK(fit_of(made_by(other, Purpose::test, 24), found).error < 0.5 * before.error);
  CHECK(found.clock == now.clock);
  CHECK_ERROR(fitted(made_by(other, Purpose::test, 1), now), "so no model may be fitted to it");
}

namespace {

std::string contents(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("fitted constants replace those of the model, line by line") {
  const std::string model = contents(PTXBUILDER_TEST_DIR "/../kernels/gemm/model.def");
  kernels::ModelConstants constants;
  CHECK(model_text(model, constants) == model);
  constants.launch = 0.25;
  const std::string text = model_text(model, constants);
  CHECK(text.find("PTXBUILDER_CONSTANT(launch, 0.25, \"") != std::string::npos);
  CHECK(std::count(text.begin(), text.end(), '\n') == std::count(model.begin(), model.end(), '\n'));
  CHECK_ERROR(model_text("// nothing\n", constants), "has 0 of the model's");
}

TEST_CASE("the explanation of a choice has its source, its terms and the runners-up") {
  GemmProblem p;
  p.m = 4096, p.n = 4096, p.k = 4096;
  ChoiceReport r = explain_choice(p, 132, 5);
  CHECK(r.tiles.size() >= 5);
  CHECK(r.tiles[0].tile == r.choice.tile);
  const std::string tile = kernels::text(r.choice.tile);
  std::string text = choice_text(r);
  CHECK(text.find("4096x4096x4096 bf16 -> bf16 TN on 132 SMs\nchosen: " + tile +
                  ", from the table of tuned tiles") == 0);
  CHECK(text.find("measured us") != std::string::npos);
  r.microseconds[tile] = 187.25;
  CHECK(choice_text(r).find(" 187.25 ") != std::string::npos);
  auto json = nlohmann::json::parse(choice_json(r));
  CHECK(json["from"] == "table");
  CHECK(json["tiles"][0]["median_us"] == 187.25);
  CHECK_FALSE(json["tiles"][1].contains("median_us"));
  const auto& first = json["tiles"][1];
  double sum = 0;
  const double sharpness = first.at("sharpness");
  for (const char* term : {"multiply_us", "l2_us", "memory_us"}) {
    const double time = first.at(term);
    sum += std::pow(time, sharpness);
  }
  const double overhead = first.at("overhead_us"), predicted = first.at("predicted_us");
  CHECK(predicted == doctest::Approx(std::pow(sum, 1 / sharpness) + overhead));
  p.k = 4104;
  r = explain_choice(p, 132, 5);
  CHECK(r.tiles.size() == 5);
  CHECK(choice_text(r).find("from the model: no table has this product") != std::string::npos);
  const kernels::GemmTile mine = kernels::checked({}, kernels::parse_tile("64x8_w1"));
  r = explain_choice(p, 132, 5, mine, "/home/me/tuned.txt");
  CHECK(r.choice.tile == mine);
  CHECK(r.tiles.size() == 6);
  CHECK(choice_text(r).find("from your file of tuned tiles, /home/me/tuned.txt") != std::string::npos);
  CHECK(nlohmann::json::parse(choice_json(r))["from"] == "file");
}

TEST_CASE("the tiles of an explanation are in the order of the choice, including doubt") {
  GemmProblem p;
  p.m = 1768, p.n = 2688, p.k = 19688;
  const ChoiceReport r = explain_choice(p, 132, 8);
  const auto json = nlohmann::json::parse(choice_json(r));
  double last = 0, most_doubt = 1;
  for (const auto& tile : json["tiles"]) {
    const double predicted = tile.at("predicted_us"), doubt = tile.at("doubt");
    CHECK(predicted * doubt >= last);
    last = predicted * doubt;
    most_doubt = std::max(most_doubt, doubt);
  }
  CHECK(most_doubt ==
        1.04);  // a tile with three consumers in clusters of four, which the model alone would choose
  CHECK(choice_text(r).find(" 4 %") != std::string::npos);
}

}  // namespace ptxbuilder::test::tune_test
