// Tests the benchmark's reports of its times: statistics, shapes, tables, charts and its command line.
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "kernels/bench/attention_options.h"
#include "kernels/bench/chart.h"
#include "kernels/bench/gemm_options.h"
#include "kernels/bench/report.h"
#include "kernels/measure/attention_shapes.h"
#include "kernels/tune/tuned_table.h"
#include "tests/kit/error_kit.h"

namespace ptxbuilder::test::bench_report_test {
using namespace bench;

namespace {

bool contains(const std::string& text, const std::string& part) {
  const bool found = text.find(part) != std::string::npos;
  if (!found) MESSAGE("no '", part, "' in: ", text);
  return found;
}

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

Ratio ratio_of(double median, double low) { return {median, low, median, {low, median + 0.01}, 30}; }

std::vector<Sample> samples(double microseconds, double mhz, size_t rounds = 10) {
  std::vector<Sample> all(rounds);
  for (Sample& s : all) {
    s.microseconds = microseconds;
    s.telemetry.sm_mhz = mhz;
    s.telemetry.watts = mhz > 0 ? 650 : 0;
  }
  return all;
}

Entry entry(const std::string& name, double microseconds, double mhz = 1700) {
  Entry e;
  e.contender = name;
  e.configuration = "128x256x64";
  e.samples = samples(microseconds, mhz);
  return e;
}

ShapeResult result(int64_t m, int64_t n, int64_t k, std::vector<Entry> entries) {
  ShapeResult r;
  static_cast<Case&>(r) = case_of({}, {"square", m, n, k, 2, false});
  r.entries = std::move(entries);
  return r;
}

RunResult run_of(std::vector<ShapeResult> results) {
  RunResult run;
  run.environment["device"] = "NVIDIA H100";
  run.reference = "cuBLASLt";
  run.multiprocessors = 132;
  run.results = std::move(results);
  return run;
}

}  // namespace

TEST_CASE("quantiles are interpolated between values") {
  const std::vector<double> odd = {5, 1, 3}, even = {4, 1, 2, 3};
  CHECK(median(odd) == 3);
  CHECK(median(even) == 2.5);
  CHECK(quantile(even, 0) == 1);
  CHECK(quantile(even, 1) == 4);
  CHECK(quantile(std::vector<double>{7}, 0.3) == 7);
  CHECK_ERROR(median(std::vector<double>{}), "no values");
  CHECK_ERROR(quantile(odd, 1.5), "must be between 0 and 1");
}

TEST_CASE("the bootstrap's interval contains the true median as often as it should") {
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal(1.05, 0.02);
  int held = 0, wide = 0;
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<double> values(30);
    for (double& v : values) v = normal(random);
    const Interval i = bootstrap_median(values, static_cast<uint64_t>(trial), 400);
    held += i.low <= 1.05 && 1.05 <= i.high;
    // The median's standard error is 1.2533 sigma / sqrt(n) = 0.0046, so an interval is about 0.018 wide.
    wide += i.high - i.low > 0.005 && i.high - i.low < 0.04;
  }
  CHECK(held >= 180);
  CHECK(held < 200);
  CHECK(wide >= 190);
  const Interval constant = bootstrap_median(std::vector<double>(9, 2.0), 1);
  CHECK(constant.low == 2);
  CHECK(constant.high == 2);
  CHECK_ERROR(bootstrap_median(std::vector<double>{}, 1), "no values");
}

TEST_CASE("ratios are paired by round: a drift that both share cancels") {
  std::vector<double> ours, theirs;
  for (int round = 0; round < 30; ++round) {
    const double drift = 1 + 0.1 * round;
    ours.push_back(100 * drift);
    theirs.push_back(103 * drift);
  }
  const Ratio r = paired_ratio(ours, theirs, 1);
  CHECK(r.median == doctest::Approx(1.03));
  CHECK(r.interval.low == doctest::Approx(1.03));
  CHECK(r.interval.high == doctest::Approx(1.03));
  CHECK(r.rounds == 30);
  theirs.pop_back();
  CHECK_ERROR(paired_ratio(ours, theirs, 1), "30 and 29 times");
}

TEST_CASE("a win must be proven") {
  CHECK(verdict(ratio_of(1.05, 1.02)) == Verdict::win);
  CHECK(verdict(ratio_of(1.05, 1.005)) == Verdict::open);
  CHECK(verdict(ratio_of(1.015, 1.01)) == Verdict::tie);
  CHECK(verdict(ratio_of(1.02, 1.009)) == Verdict::tie);
  CHECK(verdict(ratio_of(0.98, 0.97)) == Verdict::tie);
  CHECK(verdict(ratio_of(0.979, 0.97)) == Verdict::loss);
}

TEST_CASE("the score is a weighted geometric mean") {
  CHECK(geometric_mean(std::vector<Weighted>{{2, 1}, {8, 1}}) == doctest::Approx(4));
  CHECK(geometric_mean(std::vector<Weighted>{{2, 3}, {16, 1}}) == doctest::Approx(std::pow(2, 7.0 / 4)));
  CHECK_ERROR(geometric_mean(std::vector<Weighted>{}), "no values");
  CHECK_ERROR(geometric_mean(std::vector<Weighted>{{0, 1}}), "above 0");
}

TEST_CASE("shape sets have their documented weights") {
  auto weight = [](const char* set) {
    double sum = 0;
    for (const Shape& s : shape_set(set).shapes) sum += s.weight;
    return sum;
  };
  CHECK(weight("bf16") == 100);
  CHECK(weight("fp8") == 83);
  CHECK(weight("seed") == 12);
  for (const ShapeSet& set : shape_sets())
    for (const Shape& s : set.shapes) {
      CAPTURE(s.group);
      CHECK(s.m > 0);
      CHECK(s.n > 0);
      CHECK(s.k > 0);
    }
  CHECK(shapes_of(shape_set("bf16"), std::vector<std::string>{"square", "decode"}).size() == 14);
  CHECK_ERROR(shapes_of(shape_set("fp8"), std::vector<std::string>{"seed"}), "has no group 'seed'");
  CHECK_ERROR(shape_set("bf17"), "bf16, fp8, seed, drawn, fit");
}

TEST_CASE("a score has the mean of each group, if there are several, and energy has a table of its own") {
  Entry ours = entry("ours", 100), theirs = entry("cuBLASLt", 103);
  ours.joules = 0.05, theirs.joules = 0.06;
  RunResult run = run_of({result(4096, 4096, 4096, {ours, theirs}), result(64, 64, 64, {ours, theirs})});
  CHECK(markdown(run).find("; square 1.030") == std::string::npos);
  run.results[1].group = "odd";
  run.results[1].entries[0].samples = samples(206, 1700);
  const std::string text = markdown(run);
  CHECK(contains(text, "the worst 0.500 of 64x64x64; odd 0.500, square 1.030\n"));
  CHECK(contains(text, "| square 4096x4096x4096 | ours | 0.05 | 0.36 | 1.200 | 1700 | 128x256x64 |\n"));
  const auto score = nlohmann::json::parse(json(run))["scores"][0];
  CHECK(score["worst"]["shape"] == "64x64x64");
  CHECK(score["below_0.95"] == 1);
  CHECK(score["groups"]["odd"] == doctest::Approx(0.5));
}

TEST_CASE("no shape to which a choice is fitted is among those that judge it, whatever the seeds are") {
  auto layer = [](const Shape& s) { return std::pair(s.n, s.k); };
  std::set<std::pair<int64_t, int64_t>> fitted;
  for (uint64_t seed = 1; seed <= 20; ++seed)
    for (const char* set : {"fit", "fit-deep"})
      for (const Shape& s : shape_set(set).draw(seed, 200)) fitted.insert(layer(s));
  CHECK(fitted.size() > 1000);
  size_t judged = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed)
    for (const char* set : {"drawn", "deep"})
      for (const Shape& s : shape_set(set).draw(seed, 200)) judged += fitted.contains(layer(s));
  CHECK(judged == 0);
}

TEST_CASE("drawn shapes depend only on the seed, are of three kinds, within bounds, and in no other set") {
  for (const char* name : {"drawn", "fit"}) {
    const ShapeSet& set = shape_set(name);
    const std::vector<Shape> some = set.draw(7, 40), more = set.draw(7, 400), others = set.draw(8, 40);
    size_t same = 0, alike = 0, odd = 0;
    std::map<std::string, size_t> groups;
    for (size_t i = 0; i < some.size(); ++i) {
      same += size_text(problem_of({}, some[i])) == size_text(problem_of({}, more[i]));
      alike += size_text(problem_of({}, some[i])) == size_text(problem_of({}, others[i]));
    }
    CHECK(same == 40);
    CHECK(alike < 3);
    for (const Shape& s : more) {
      ++groups[s.group];
      odd += s.n % 8 != 0 || s.k % 8 != 0;
      CHECK(2 * (s.m * s.k + s.n * s.k + s.m * s.n) <= int64_t{1} << 31);
      for (const char* fixed : {"bf16", "seed"})
        for (const Shape& f : shape_set(fixed).shapes) CHECK_FALSE((f.m == s.m && f.n == s.n && f.k == s.k));
    }
    CHECK(groups == std::map<std::string, size_t>{{"layer", 200}, {"odd", 50}, {"uniform", 150}});
    CHECK(odd > 40);
  }
  // The sets must be those of the first published figures. A different generator would draw different sets.
  CHECK(size_text(problem_of({}, shape_set("drawn").draw(3, 8)[7])) == "285x3525x43");
  CHECK(size_text(problem_of({}, shape_set("fit").draw(3, 8)[6])) == "656x6880x10240");
}

TEST_CASE("deep shapes have few tiles and a long k") {
  for (const char* name : {"deep", "fit-deep"}) {
    std::set<int64_t> depths;
    for (const Shape& s : shape_set(name).draw(7, 100)) {
      CHECK(s.m * s.n <= 1 << 20);
      CHECK(s.k >= 4096);
      depths.insert(s.k);
    }
    CHECK(depths.size() > 90);
  }
}

TEST_CASE("a shape is read from a word, or refused") {
  const Shape plain = parse_shape("4095x4097x64"), full = parse_shape("8x16x32:2.5:warm");
  CHECK(plain.m == 4095);
  CHECK(plain.n == 4097);
  CHECK(plain.k == 64);
  CHECK(plain.weight == 1);
  CHECK_FALSE(plain.warm);
  CHECK(full.weight == 2.5);
  CHECK(full.warm);
  for (const char* wrong :
       {"", "8x8", "8x8x8x8", "8x0x8", "8x-1x8", "8x8x8:", "8x8x8:0", "8x8x8:1:hot", "axbxc", "8x8x8 "})
    CHECK_ERROR(parse_shape(wrong), "is not MxNxK");
}

TEST_CASE("layouts are letters, and rows begin at 16 bytes") {
  GemmProblem p;
  p.m = 4095, p.n = 4097, p.k = 1000;
  for (const char* letters : {"TN", "NN", "NT", "TT"}) {
    p.set_layout(letters);
    CHECK(p.layout() == letters);
  }
  CHECK_ERROR(p.set_layout("tn"), "TN (both k-major)");
  p.set_layout("NN");
  CHECK(p.a_k_major);
  CHECK_FALSE(p.b_k_major);
  CHECK(p.ldd() == 4104);
  CHECK(p.ldb() == 4104);
  CHECK(p.lda() == 1000);
  CHECK(p.b_rows() == 1000);
  p.d = DType::f32;
  CHECK(p.ldd() == 4100);
}

TEST_CASE("rounds in which clocks differ are left out, unless most do") {
  ShapeResult r = result(64, 64, 64, {entry("ours", 10), entry("cuBLASLt", 10)});
  CHECK(counted_rounds(r).size() == 10);
  r.entries[0].samples[3].telemetry.sm_mhz = 1600;
  CHECK(counted_rounds(r).size() == 9);
  for (Sample& s : r.entries[0].samples) s.telemetry.sm_mhz = 1600;
  CHECK(counted_rounds(r).size() == 10);
  for (Entry& e : r.entries) e.samples = samples(10, 0);
  CHECK(counted_rounds(r).size() == 10);
}

TEST_CASE("the report has a line for each contender, and credits no wrong result") {
  Entry wrong = entry("variant", 1), absent = entry("pipe|line", 1);
  wrong.wrong = "D[0, 0] is 1";
  wrong.samples.clear();
  absent.left_out = "it takes bf16 alone";
  absent.samples.clear();
  const RunResult run =
      run_of({result(4096, 4096, 4096, {entry("ours", 100), wrong, absent, entry("cuBLASLt", 103)}),
              result(64, 64, 64, {entry("ours", 100), entry("cuBLASLt", 90)})});
  const std::string text = markdown(run);
  CHECK(contains(text,
                 "| square 4096x4096x4096 | sustained | bf16 -> bf16 TN | ours | 100.00 | 1374.4 | 1.030 | "
                 "1.030 to 1.030 | win | 1700 | 650 | 128x256x64 |"));
  CHECK(contains(text, "| 103.00 | 1334.4 | 1 | - | reference |"));
  CHECK(contains(text, "| variant | - | - | - | - | WRONG | - | - | D[0, 0] is 1 |"));
  CHECK(contains(text, "| left out | - | - | it takes bf16 alone |"));
  CHECK(contains(text, "| loss |"));
  CHECK(contains(text,
                 "- ours, sustained: 0.963 x cuBLASLt, over 2 of 2 shapes with weight 4, 1 win, 1 loss; 1 "
                 "below 0.98, 1 below 0.95, the worst 0.900 of 64x64x64\n"));
  CHECK(contains(text, "- variant, sustained: no shape of 1 counts"));
  CHECK(text.find("## Energy") == std::string::npos);
  // Each line of the table has the columns of its header.
  size_t at = text.find("| shape |");
  const size_t columns = 13;
  for (size_t end; at < text.size(); at = end + 1) {
    end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    if (!line.empty()) CHECK(count(line, "|") - count(line, "\\|") == columns);
  }
  CHECK(contains(progress_lines(run.results[0], "cuBLASLt"),
                 "ours 100.00 us, 1374.4 TFLOP/s, 1.030 x cuBLASLt, win"));
}

TEST_CASE("a reference that is timed for no shape is absent, with its reason for the first") {
  Entry refused = entry("cuBLASLt", 1), late = entry("cuBLASLt", 1);
  refused.left_out = "it takes no f16 into bf16";
  late.samples.clear();
  const auto absence = [](const std::vector<Entry>& of_shapes) {
    std::vector<ShapeResult> shapes;
    for (const Entry& e : of_shapes) shapes.push_back(result(64, 64, 64, {entry("ours", 100), e}));
    return absence_of_reference(run_of(shapes));
  };
  CHECK(absence({refused, refused}) == "it takes no f16 into bf16");
  CHECK(absence({refused, entry("cuBLASLt", 90)}) == "");
  CHECK(absence({refused, late}) == "");  // the time limit came first
  CHECK(absence({entry("another", 90)}) == "");
  CHECK(absence({}) == "");
}

TEST_CASE("ours are scored against the fastest peer of each shape, if there are two") {
  Entry ours = entry("ours", 100), late = entry("CUTLASS", 50);
  ours.ours = true;
  late.left_out = "it has died";
  late.samples.clear();
  RunResult run = run_of({result(64, 64, 64, {ours, entry("CUTLASS", 110), entry("cuBLASLt", 121)}),
                          result(128, 64, 64, {ours, entry("CUTLASS", 105), entry("cuBLASLt", 90)}),
                          result(256, 64, 64, {ours, late, entry("cuBLASLt", 100)})});
  const std::vector<Score> best = best_peer_scores(run);
  REQUIRE(best.size() == 1);
  CHECK(best[0].contender == "ours");
  CHECK(best[0].shapes == 3);
  CHECK(best[0].mean == doctest::Approx(std::cbrt(1.1 * 0.9)));
  CHECK(best[0].verdicts.at(Verdict::win) == 1);
  CHECK(best[0].verdicts.at(Verdict::loss) == 1);
  CHECK(contains(markdown(run),
                 "- ours, sustained: 0.997 x the fastest peer of each shape, over 3 of 3 shapes"));
  CHECK(contains(markdown(run), "- CUTLASS, sustained: 0.971 x cuBLASLt, over 2 of 3 shapes"));
  CHECK(nlohmann::json::parse(json(run))["best_peer_scores"][0]["shapes"] == 3);
  for (ShapeResult& r : run.results) r.entries.erase(r.entries.begin() + 1);
  CHECK(best_peer_scores(run).empty());
}

TEST_CASE("JSON has every round's time") {
  Entry wrong = entry("variant", 1);
  wrong.wrong = "D[0, 0] is 1";
  const auto parsed = nlohmann::json::parse(
      json(run_of({result(4096, 4096, 4096, {entry("ours", 100), wrong, entry("cuBLASLt", 103)})})));
  const auto& first = parsed["results"][0];
  CHECK(first["m"] == 4096);
  CHECK(first["contenders"][0]["rounds"].size() == 10);
  CHECK(first["contenders"][0]["rounds"][0]["us"] == 100);
  CHECK(first["contenders"][0]["ratio"]["verdict"] == "win");
  CHECK(first["contenders"][0]["flops_per_clock_and_sm"].get<double>() ==
        doctest::Approx(6124.8).epsilon(1e-3));
  CHECK(first["contenders"][1]["wrong"] == "D[0, 0] is 1");
  CHECK_FALSE(first["contenders"][1].contains("median_us"));
  CHECK(parsed["scores"][0]["mean"].get<double>() == doctest::Approx(1.03));
  CHECK(parsed["environment"]["device"] == "NVIDIA H100");
}

TEST_CASE("a chart has a mark for each value, and escapes words") {
  Chart chart;
  chart.title = "a < b & c";
  chart.labels = {"512", "1024", "2048"};
  chart.series = {{"ours", {600.0, std::nullopt, 700.0}}, {"cuBLASLt", {500.0, 650.0, 690.0}}};
  chart.lines = true;
  const std::string lines = svg({chart});
  CHECK(count(lines, "<polyline") == 2);
  CHECK(count(lines, "<circle") == 5);
  CHECK(contains(lines, "a &lt; b &amp; c"));
  chart.lines = false;
  const std::string bars = svg({chart, chart});
  CHECK(count(bars, "<rect") == 1 + 2 * (5 + 2));  // the background, the bars and the legend's squares
  CHECK(count(bars, "<g ") == count(bars, "</g>"));
  chart.series[0].values.pop_back();
  CHECK_ERROR(svg({chart}), "'ours' has 2 values for 3 labels");
  CHECK(contains(svg({}), "</svg>"));
}

TEST_CASE("shapes that differ only in K make lines, and schedules have their own chart") {
  auto entries = [](const char* other) {
    return std::vector<Entry>{entry(other, 12), entry("gemm_multistage", 10), entry("gemm_pingpong", 9),
                              entry("cuBLASLt", 10)};
  };
  const char* const single = "gemm_multistage 1 stage";
  const RunResult run =
      run_of({result(7296, 256, 512, entries(single)), result(7296, 256, 1024, entries(single))});
  const std::vector<Chart> both = charts(run);
  REQUIRE(both.size() == 2);
  CHECK(both[0].lines);
  CHECK(both[0].labels == std::vector<std::string>{"512", "1024"});
  REQUIRE(both[0].series.size() == 2);
  CHECK(both[0].series[0].name == single);
  CHECK(both[1].series.size() == 3);
  CHECK(contains(table(both[0]),
                 "sustained, TFLOP/s (ratio):\n\n| K | 512 | 1024 |\n|---|---|---|\n"
                 "| gemm_multistage 1 stage | 159.4 (0.83) | 318.8 (0.83) |\n"
                 "| gemm_multistage | 191.3 (1.00) | 382.5 (1.00) |\n"));
  CHECK(contains(markdown(run), table(both[1])));
  const std::vector<Chart> one =
      charts(run_of({result(7296, 256, 512, {entry("gemm", 1), entry("cuBLASLt", 2)}),
                     result(7296, 256, 1024, {entry("gemm", 1), entry("cuBLASLt", 2)})}));
  REQUIRE(one.size() == 1);
  CHECK(one[0].series.size() == 2);
  const std::vector<Chart> bars =
      charts(run_of({result(64, 64, 64, {entry("gemm", 1)}), result(128, 64, 64, {entry("gemm", 1)})}));
  REQUIRE(bars.size() == 1);
  CHECK_FALSE(bars[0].lines);
  CHECK(contains(table(bars[0]), "| M x N x K | 64x64x64 | 128x64x64 |"));
  CHECK(bars[0].labels[1] == "128x64x64");
}

TEST_CASE("tuned rows have tiles of the matrix product, not of the steps to it") {
  auto ours = [](const char* tile, double time) {
    Entry e = entry("ptxbuilder", time);
    e.ours = true;
    e.configuration = std::string(tile) + ", predicted 9.0 us";
    return e;
  };
  Entry step = ours("128x128x64", 5);
  const Entry slow = ours("128x256x64_4", 12), fast = ours("64x128x64_8", 10), peer = entry("cuBLASLt", 1);
  const std::string rows = "PTXBUILDER_TUNED(bf16, bf16, \"TN\", 64, 64, 64, \"";
  CHECK(tuned_rows(run_of({result(64, 64, 64, {slow, fast, step, peer})})) == rows + "128x128x64\")\n");
  step.step = true;
  CHECK(tuned_rows(run_of({result(64, 64, 64, {slow, fast, step, peer})})) == rows + "64x128x64_8\")\n");
}

TEST_CASE("the command line: its meaning, and refused words") {
  const GemmOptions plain = parse_gemm_options({});
  CHECK(plain.cases.size() == shape_set("bf16").shapes.size());
  CHECK(plain.types.a == DType::bf16);
  CHECK(plain.method.rounds == 30);
  CHECK(plain.contenders.empty());  // by default, the benchmark leaves out the steps
  CHECK(parse_gemm_options({"--set", "seed"}).contenders == std::vector<std::string>{"all"});
  CHECK(plain.regimes == std::vector<Regime>{Regime::sustained});
  const GemmOptions chosen = parse_gemm_options(
      {"--set", "seed", "--regimes", "cool,sustained", "--quick", "--rounds", "3", "--layout", "TN",
       "--shape", "8x8x8", "--shape", "16x8x8:2", "--seed", "7", "--contenders", "a,b"});
  CHECK(chosen.cases.size() == 2);
  CHECK(chosen.types.a == DType::f16);
  CHECK(chosen.types.d == DType::f32);
  CHECK(chosen.types.layout() == "TN");
  CHECK(chosen.method.rounds == 3);
  CHECK(chosen.method.burst_milliseconds == 5);
  CHECK(chosen.method.seed == 7);
  CHECK(chosen.regimes == std::vector<Regime>{Regime::cool, Regime::sustained});
  CHECK(chosen.contenders == std::vector<std::string>{"a", "b"});
  CHECK(parse_gemm_options({"--dtype", "s8"}).types.d == DType::s32);
  CHECK(parse_gemm_options({"--dtype", "f16"}).types.d == DType::f16);
  CHECK(parse_gemm_options({"--dtype", "f16", "--d-type", "bf16"}).types.d == DType::bf16);
  CHECK(parse_gemm_options({"--dtype", "e4m3"}).types.d == DType::bf16);
  CHECK(parse_gemm_options({"--set", "fp8", "--dtype", "f16"}).types.d == DType::f16);
  CHECK(parse_gemm_options({"--set", "seed", "--dtype", "f16"}).types.d == DType::f32);
  CHECK_FALSE(parse_gemm_options({"--set", "fp8", "--slow-accumulation"}).types.fast_accumulation);

  auto refused = [](std::vector<std::string> words, const char* text) {
    try {
      parse_gemm_options(words);
    } catch (const UsageError& e) {
      return contains(e.what(), text);
    }
    return false;
  };
  const GemmOptions drawn =
      parse_gemm_options({"--set", "drawn", "--seed", "3", "--count", "5", "--energy", "2"});
  CHECK(drawn.cases.size() == 5);
  CHECK(std::get<GemmProblem>(drawn.cases[3].problem).m == shape_set("drawn").draw(3, 5)[3].m);
  CHECK(drawn.method.energy_seconds == 2);
  CHECK(drawn.method.checked_elements == 200);
  CHECK(parse_gemm_options({"--set", "drawn", "--shapes", "odd"}).cases.size() == 5);
  CHECK(parse_gemm_options({"--set", "fit", "--dtype", "e4m3", "--brief-check"}).method.checked_elements ==
        24);

  CHECK(refused({"--count", "5"}, "goes with the sets drawn, fit, deep and fit-deep"));
  CHECK(refused({"--set", "drawn", "--count", "5", "--shape", "8x8x8"}, "goes with the sets"));
  CHECK(refused({"--set", "bf17"}, "the sets are bf16, fp8, seed, drawn, fit"));
  CHECK(refused({"--shapes", "cubes"}, "its groups are square"));
  CHECK(refused({"--shape", "8x8"}, "is not MxNxK"));
  CHECK(refused({"--shape", "8x8x8", "--shapes", "square"}, "give one of them"));
  CHECK(refused({"--dtype", "f64"}, "is not one of bf16, f16"));
  CHECK(refused({"--dtype", "s8", "--d-type", "f32"}, "products of s8 are s32"));
  CHECK(refused({"--layout", "XY"}, "TN (both k-major)"));
  CHECK(refused({"--regimes", "hot"}, "sustained, cool"));
  CHECK(refused({"--regimes", "cool,cool"}, "given twice"));
  CHECK(refused({"--rounds", "0"}, "--rounds"));
  CHECK(refused({"--turns", "3"}, "--rounds"));  // the message lists the known words
  CHECK(refused({"--device", "tpu"}, "is not cuda"));
  CHECK_ERROR(parse_gemm_options({"--device", "emulator"}), "a benchmark needs a Hopper GPU");
}

namespace {

ShapeResult attention(const std::string& shape, std::vector<Entry> entries) {
  ShapeResult r;
  r.group = "given";
  r.problem = parse_attention(shape);
  r.entries = std::move(entries);
  r.entries[0].ours = true;
  return r;
}

}  // namespace

TEST_CASE(
    "attention is reported by shape against its fastest peer, and has a chart for each width and mask") {
  RunResult run =
      run_of({attention("b4_s512_h16_d128", {entry("ours", 100), entry("A", 110), entry("B", 121)}),
              attention("b2_s1024_h16_d128", {entry("ours", 100), entry("A", 105), entry("B", 90)}),
              attention("b4_s512_h16_d128:causal", {entry("ours", 100), entry("A", 120)}),
              attention("b2_s1024_h16_d128:causal", {entry("ours", 100), entry("A", 120)}),
              attention("b1_s64_h4_d96:bf16", {entry("ours", 100)}),
              attention("b1_s64_h4_d64", {entry("ours", 100), entry("B", 100)})});
  run.title = "Attention";
  run.reference = kFastestPeer;
  CHECK(reference_of(run, run.results[0]) == "A");
  CHECK(reference_of(run, run.results[1]) == "B");
  CHECK(reference_of(run, run.results[4]) == "");
  const std::vector<Score> all = scores(run);
  REQUIRE(all.size() == 1);
  CHECK(all[0].contender == "ours");
  CHECK(all[0].shapes == 5);
  CHECK(all[0].mean == doctest::Approx(std::pow(1.1 * 0.9 * 1.2 * 1.2, 0.2)));
  CHECK(best_peer_scores(run).empty());
  const std::string text = markdown(run);
  CHECK(text.find("# Attention\n") == 0);
  CHECK(contains(text, "- ours, sustained: 1.073 x the fastest peer, over 5 of 6 shapes"));
  CHECK(contains(text, "| given b4_s512_h16_d128 | sustained | f16 | ours | 100.00 | 85.9 | 1.100 |"));
  CHECK(contains(text, "| given b2_s1024_h16_d128 | sustained | f16 | A | 105.00 | 163.6 | 0.857 |"));
  CHECK(contains(text, "| B | 90.00 | 190.9 | 1 | - | reference |"));
  const auto parsed = nlohmann::json::parse(json(run));
  CHECK(parsed["reference"] == "the fastest peer");
  const auto& first = parsed["results"][0];
  CHECK(first["reference"] == "A");
  CHECK(first["queries"] == 512);
  CHECK(first["depth"] == 128);
  CHECK(first["causal"] == false);
  CHECK(first["contenders"][0]["ratio"]["verdict"] == "win");

  const std::vector<Chart> made = charts(run);
  REQUIRE(made.size() == 3);
  CHECK(made[0].lines);
  CHECK(made[0].title == "16 heads of 128, f16, sustained");
  CHECK(made[0].labels == std::vector<std::string>{"512", "1024"});
  CHECK(made[0].series.size() == 3);
  CHECK(made[1].title == "16 heads of 128, f16 causal, sustained");
  CHECK_FALSE(made[2].lines);
  CHECK(made[2].title == "others, sustained");
  CHECK(made[2].labels == std::vector<std::string>{"b1_s64_h4_d96:bf16", "b1_s64_h4_d64"});
  CHECK(contains(text, "| queries | 512 | 1024 |\n|---|---|---|\n| ours | 85.9 (1.10) | 171.8 (0.90) |\n"));
}

TEST_CASE("attention's shapes are those of its sets, or read from words that say their sizes") {
  const std::vector<Case> grid = attention_set("grid").cases(1), extra = attention_set("extra").cases(1);
  CHECK(grid.size() == 36);
  CHECK(extra.size() == 18);
  double weight = 0;
  for (const Case& c : grid) {
    weight += c.weight;
    const auto& p = std::get<AttentionProblem>(c.problem);
    CHECK(p.query_rows() == 16384);
    CHECK(p.heads * p.depth == 2048);
  }
  CHECK(weight == doctest::Approx(10000));
  for (uint64_t seed : {1, 2}) {
    const std::vector<Case> drawn = attention_set("extra").cases(seed);
    const auto packed =
        std::find_if(drawn.begin(), drawn.end(), [](const Case& c) { return c.group == "packed"; });
    REQUIRE(packed != drawn.end());
    CHECK(std::get<AttentionProblem>(packed->problem).query_rows() == 16384);
  }
  CHECK_FALSE(extra[13].problem == attention_set("extra").cases(2)[13].problem);
  CHECK_ERROR(attention_set("more"), "the sets are grid, extra, e4m3");
  const std::vector<Case> of_e4m3 = attention_set("e4m3").cases(1);
  CHECK(of_e4m3.size() == 36);
  CHECK(std::get<AttentionProblem>(of_e4m3[1].problem).output().type == DType::bf16);
  for (const std::vector<Case>& cases : {grid, extra, of_e4m3})  // each shape is read as it is written
    for (const Case& c : cases) {
      const auto& written = std::get<AttentionProblem>(c.problem);
      if (!written.packed()) CHECK(parse_attention(size_text(written)) == written);
    }
  const AttentionProblem p = parse_attention("b3_s10/20_h8/2_d64/48:causal:bf16:left=5");
  CHECK(p.batches == 3);
  CHECK(p.queries == 10);
  CHECK(p.keys == 20);
  CHECK(p.key_heads == 2);
  CHECK(p.value_depth == 48);
  CHECK(p.causal);
  CHECK(p.left == 5);
  CHECK(type_text(p) == "bf16 causal left 5");
  for (const char* wrong :
       {"", "b1_s8_h1", "b1_s8_h1_d64_x", "s8_b1_h1_d64", "b1_s0_h1_d64", "b1/2_s8_h1_d64",
        "b1_s8_h1_d64:", "b1_s8_h1_d64:f32", "b1_s8_h1_d64:left=-1", "b1_s8/9/9_h1_d64"})
    CHECK_ERROR(parse_attention(wrong), "is not bN_sN_hN_dN");
  CHECK_ERROR(parse_attention("b1_s8_h3/2_d64"), "3 heads must be a multiple of K's 2");

  CHECK(parse_attention_options({}).cases.size() == 36);
  CHECK(parse_attention_options({"--shapes", "d64,d128-causal"}).cases.size() == 12);
  CHECK(
      parse_attention_options({"--set", "extra", "--seed", "3", "--tiles", "128x176_2"}).ours.tiles.size() ==
      1);
  const Options given =
      parse_attention_options({"--shape", "b1_s8_h1_d64", "--shape", "b1_s9_h1_d64", "--quick"});
  CHECK(given.cases.size() == 2);
  CHECK(given.method.rounds == 8);
  CHECK_ERROR(parse_attention_options({"--shape", "b1_s8_h1_d64", "--shapes", "d64"}),
              "cannot be used together");
  CHECK_ERROR(parse_attention_options({"--shapes", "d65"}), "its groups are d64, d64-causal, d128");
  CHECK_ERROR(parse_attention_options({"--device", "emulator"}), "a benchmark needs a Hopper GPU");
}

}  // namespace ptxbuilder::test::bench_report_test
