// What `ptxb tune` keeps and prints: the table of tuned tiles, and predictions beside times.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "error_kit.h"
#include "kernels/bench/report.h"
#include "kernels/bench/tune_report.h"
#include "kernels/bench/tuned_table.h"
#include "tuned_rows.h"

using namespace ptxbuilder;
using namespace ptxbuilder::bench;

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
  r.problem.m = r.problem.n = r.problem.k = 4096;
  r.entries = std::move(entries);
  return r;
}

}  // namespace

TEST_CASE("a row takes the place of its product's, and leaves all other lines as they are") {
  const std::string before = "// Tiles that were the fastest.\n\n" + row(kBf16, 64, 64, 64, "64x8x64_2"),
                    after = row(kBf16, 128, 64, 64, "64x16x64_2") + "// end\n";
  const std::string old = row(kBf16, 64, 128, 64, "64x24x64_2"),
                    fresh = row(kBf16, 64, 128, 64, "64x32x64_2");
  CHECK(merge_tuned(before + old + after, fresh) == before + fresh + after);
  CHECK(merge_tuned(before + old + after, old) == before + old + after);
  CHECK(merge_tuned(before + old + after, "// nothing\n") == before + old + after);
  // The same sizes of other types, or in another layout, are another product.
  const std::string other = row(kF16, 64, 128, 64, "64x40x64_2"),
                    transposed = row("bf16, bf16, \"NN\"", 64, 128, 64, "64x48x64_2");
  CHECK(merge_tuned(before + old + after, other + transposed) == before + old + after + other + transposed);
}

TEST_CASE("a new row stands where m, n and k put it among those of its types and layout") {
  const std::string small = row(kBf16, 64, 64, 64, "a"), large = row(kBf16, 4096, 512, 64, "b"),
                    other = row(kF16, 1, 1, 1, "c");
  const std::string table = small + large + other;
  auto merged = [&](int m, int n, int k) { return merge_tuned(table, row(kBf16, m, n, k, "x")); };
  CHECK(merged(64, 64, 32) == row(kBf16, 64, 64, 32, "x") + table);
  CHECK(merged(64, 64, 128) == small + row(kBf16, 64, 64, 128, "x") + large + other);
  CHECK(merged(512, 8192, 8192) == small + row(kBf16, 512, 8192, 8192, "x") + large + other);  // by number
  CHECK(merged(8192, 1, 1) == small + large + row(kBf16, 8192, 1, 1, "x") + other);
  CHECK(merge_tuned("", small + other) == small + other);
  CHECK(merge_tuned("// no end of line", small) == "// no end of line\n" + small);
}

TEST_CASE("what is no row is refused with its line") {
  const std::string good = row(kBf16, 64, 64, 64, "64x8x64_2");
  CHECK(error_of([&] { merge_tuned(good, good); }) == "no error");
  for (const char* bad :
       {"PTXBUILDER_TUNED(bf16, bf16, \"TN\", 64, 64, \"64x8x64_2\")",
        "PTXBUILDER_TUNED(bf17, bf16, \"TN\", 64, 64, 64, \"64x8x64_2\")",
        "PTXBUILDER_TUNED(bf16, bf16, \"TN\", 64, 64, 64, \"64x8x64_2\") // fast", "PTXBUILDER_TUNED"})
    CHECK_ERROR(merge_tuned(good + bad + "\n", ""), "line 2 of the tuned table is no row: 'PTXBUILDER_TUNED");
}

TEST_CASE("tiles come by their times, each once, with what limits them") {
  Entry wrong = entry("128x64x64_8", 1), slow = entry("64x8x64_16_w1", 900), refused;
  wrong.wrong = "D[0,0] = 1, should be 2";
  refused.contender = "candidate 3";
  refused.left_out = "the model has no 3 tiles for it";
  const ShapeResult r = result({entry("128x256x64_4", 200), wrong, slow, refused,
                                entry("128x256x64_4_2x1", 190), entry("128x256x64_4", 195)});
  const std::vector<TunedTile> tiles = tuned_tiles(r, 132);
  REQUIRE(tiles.size() == 5);
  CHECK(tiles[0].tile == "128x256x64_4_2x1");
  CHECK(tiles[1].tile == "128x256x64_4");
  CHECK(tiles[1].microseconds == 195);
  CHECK(tiles[1].chosen);
  CHECK_FALSE(tiles[0].chosen);
  CHECK(tiles[2].tile == "64x8x64_16_w1");
  CHECK(tiles[3].problem == "WRONG: D[0,0] = 1, should be 2");
  CHECK(tiles[4].tile == "candidate 3");
  CHECK(limiting_term(tiles[0].predicted) == "multiply");
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
