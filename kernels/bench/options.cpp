#include "kernels/bench/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

namespace ptxbuilder::bench {
namespace {

// What the words set.
struct Words {
  std::string set = "bf16", device = "cuda", dtype, d_type, layout;
  std::vector<std::string> groups, shapes, regimes, peers;
  bool slow_accumulation = false, quick = false, no_cublaslt = false, no_cache = false, driver = false,
       brief_check = false;
  std::optional<int> rounds, least_launches, count;
  std::optional<double> burst, warm_up, rest, energy;
  std::optional<uint64_t> seed;
};

void add_shape_options(const command::Arguments& app, Words& words) {
  app.option(
         "--set", words.set,
         "bf16, fp8, or seed (f16 to f32, 7296 x 256 x K); drawn: shapes that --seed draws; deep: the same "
         "with few tiles and a long k; fit and fit-deep: others, which the choice of tiles may be fitted to")
      .shown_as("NAME");
  app.option("--count", words.count, "shapes of a set that a seed draws (40)").from(1, 10000).shown_as("N");
  app.option("--shapes", words.groups, "groups of the set, by comma; all unless given")
      .by_comma()
      .shown_as("GROUP,...");
  app.option("--shape", words.shapes, "a shape instead of the set's; may be given again")
      .shown_as("MxNxK[:WEIGHT[:warm]]");
  app.option("--dtype", words.dtype, "of A and B: bf16 f16 tf32 e4m3 e5m2 s8; the set's unless given")
      .shown_as("TYPE");
  app.option("--d-type", words.d_type, "of D: f32 f16 bf16, or s32 of s8").shown_as("TYPE");
  app.option("--layout", words.layout, "TN NN NT TT, as cuBLAS is called for row-major data")
      .shown_as("LETTERS");
  app.flag("--slow-accumulation", words.slow_accumulation, "of fp8: promote to f32 on the way");
}

void add_method_options(const command::Arguments& app, Words& words, Options& options) {
  app.option("--regimes", words.regimes, "sustained, cool, or both by comma").by_comma().shown_as("NAME,...");
  app.flag("--quick", words.quick, "8 rounds of 5 ms, 0.3 s of warm-up: a first look");
  app.option("--rounds", words.rounds, "in each of which all contenders run once (30)")
      .from(1, 10000)
      .shown_as("N");
  app.option("--burst-ms", words.burst, "that launches follow each other in a round, at least (20)")
      .from(0.1, 10000.0)
      .shown_as("MS");
  app.option("--launches", words.least_launches, "of a burst, at least (20)").from(1, 100000).shown_as("N");
  app.option("--warm-up", words.warm_up, "of each shape in the regime sustained, in seconds (3)")
      .from(0.0, 600.0)
      .shown_as("S");
  app.option("--rest-ms", words.rest, "before each burst of the regime cool (300)")
      .from(0.0, 10000.0)
      .shown_as("MS");
  app.flag("--brief-check", words.brief_check, "24 elements of each result against float64, and no more");
  app.option("--energy", words.energy,
             "then run each contender for so many seconds, for the joules of one product by NVML's counter")
      .from(0.5, 600.0)
      .shown_as("S");
  app.option("--time-limit", options.time_limit_seconds,
             "of the whole run, in seconds; what is done by then is reported")
      .from(1.0, 1e6)
      .shown_as("S");
  app.option("--seed", words.seed, "of data, order and drawn shapes; fresh unless given").shown_as("N");
  app.option("--device", words.device, "cuda: the emulator has no speed worth knowing").shown_as("NAME");
}

void add_contender_options(const command::Arguments& app, Words& words, Options& options) {
  app.option("--contenders", options.contenders,
             "by comma, or all, which --set seed means; else all but the kernels that lead to ours. What "
             "other options ask for takes part anyway")
      .by_comma()
      .shown_as("NAME,...");
  app.option("--tiles", options.ours.tiles, "of ours to compare, by comma: 128x256_4_2x1,64x128_pp")
      .by_comma()
      .shown_as("TILE,...");
  app.option("--tune", options.ours.candidates,
             "measure the model's first N tiles for each shape, beside the chosen one")
      .from(1, 100)
      .shown_as("N");
  app.option("--diverse", options.ours.diverse,
             "and N more, drawn among those that the model holds for up to half slower than its first")
      .from(1, 100)
      .shown_as("N");
  app.flag("--at-run-time", options.ours.tuned,
           "and Matmul as it tunes itself, by measuring a shape when it comes first");
  app.option("--tuned", options.tuned, "put the fastest into this table, as rows of kernels/gemm/tuned.def")
      .shown_as("FILE");
  app.flag("--no-cublaslt", words.no_cublaslt, "without the reference: times and checks alone");
  app.option("--peer", words.peers,
             "a contender in a process of its own, which answers as kernels/bench/peers/peer_process.h "
             "says; may be given again")
      .shown_as("NAME=COMMAND");
  app.option("--peer-limit", options.peer_limit_seconds, "of one answer of a peer, in seconds (300)")
      .from(0.1, 1e5)
      .shown_as("S");
  app.option("--cublaslt", options.cublaslt, "libcublasLt.so.13 or .12; it is searched unless given")
      .shown_as("FILE");
  app.option("--ptxas", options.ours.ptxas, "the ptxas to take; else PATH, CUDA_PATH, /usr/local")
      .shown_as("FILE");
  app.flag("--driver-assembles", words.driver, "compile PTX by the driver, though there is a ptxas");
  app.flag("--no-cache", words.no_cache, "assemble anew, and keep nothing");
}

void add_output_options(const command::Arguments& app, Options& options) {
  app.flag("--list", options.list, "print the shapes that would run, and end");
  app.option("--json", options.json, "write everything there, after each shape").shown_as("FILE");
  app.option("--markdown", options.markdown, "write the report there, after each shape").shown_as("FILE");
  app.option("--times", options.times, "write the times of ours as lines that `ptxb tune model` reads")
      .shown_as("FILE");
  app.option("--svg", options.svg, "write charts there, after each shape").shown_as("FILE");
}

DType type_among(const std::string& word, const char* option, std::initializer_list<DType> legal) {
  std::string known;
  for (DType type : legal) {
    if (name(type) == word) return type;
    if (!known.empty()) known += ", ";
    known += name(type);
  }
  throw UsageError(fmt::format("{} '{}' is not one of {}", option, word, known));
}

void check_output_type(const GemmProblem& p) {
  const bool integer = p.a == DType::s8;
  if (integer == (p.d == DType::s32)) return;
  throw UsageError(
      fmt::format("--d-type {} with --dtype {}: products of s8 are s32, those of other types are not",
                  name(p.d), name(p.a)));
}

GemmProblem chosen_types(const Words& words, const ShapeSet& set) {
  GemmProblem p = set.types;
  if (!words.dtype.empty()) {
    p.a = p.b = type_among(words.dtype, "--dtype",
                           {DType::bf16, DType::f16, DType::tf32, DType::e4m3, DType::e5m2, DType::s8});
    if (p.a == DType::s8) p.d = DType::s32;
    if (p.a == DType::tf32) p.d = DType::f32;
    // cuBLASLt multiplies e5m2 by e4m3 alone.
    if (p.a == DType::e5m2) p.b = DType::e4m3;
  }
  if (!words.d_type.empty())
    p.d = type_among(words.d_type, "--d-type", {DType::f32, DType::f16, DType::bf16, DType::s32});
  if (!words.layout.empty()) p.set_layout(words.layout);
  if (words.slow_accumulation) p.accumulate_slowly();
  check_output_type(p);
  return p;
}

std::vector<Shape> chosen_shapes(const Words& words, ShapeSet set, uint64_t seed) {
  if (words.count && (!set.draw || !words.shapes.empty()))
    throw UsageError("--count goes with the sets drawn, fit, deep and fit-deep, whose shapes are drawn");
  if (!words.groups.empty() && !words.shapes.empty())
    throw UsageError("--shape and --shapes: give one of them");
  if (set.draw) set.shapes = set.draw(seed, words.count.value_or(40));
  if (words.shapes.empty()) return shapes_of(set, words.groups);
  std::vector<Shape> shapes;
  for (const std::string& text : words.shapes) shapes.push_back(parse_shape(text));
  return shapes;
}

std::vector<Regime> chosen_regimes(const Words& words) {
  if (words.regimes.empty()) return {Regime::sustained};
  std::vector<Regime> regimes;
  for (const std::string& word : words.regimes) {
    if (word != name(Regime::sustained) && word != name(Regime::cool))
      throw UsageError(fmt::format("--regimes '{}' is not one of sustained, cool", word));
    const Regime regime = word == name(Regime::cool) ? Regime::cool : Regime::sustained;
    if (std::find(regimes.begin(), regimes.end(), regime) != regimes.end())
      throw UsageError(fmt::format("--regimes: {} is given twice", word));
    regimes.push_back(regime);
  }
  return regimes;
}

std::vector<PeerCommand> chosen_peers(const Words& words) {
  std::vector<PeerCommand> peers;
  for (const std::string& word : words.peers) {
    const size_t at = word.find('=');
    if (at == std::string::npos || at == 0 || at + 1 == word.size())
      throw UsageError(fmt::format("--peer '{}' is not NAME=COMMAND", word));
    PeerCommand peer = {word.substr(0, at), word.substr(at + 1)};
    for (const PeerCommand& other : peers)
      if (other.name == peer.name) throw UsageError(fmt::format("--peer: {} is given twice", peer.name));
    peers.push_back(std::move(peer));
  }
  return peers;
}

MethodOptions chosen_method(const Words& words) {
  MethodOptions m;
  if (words.quick)
    m = {.rounds = 8,
         .burst_milliseconds = 5,
         .least_launches = 5,
         .warm_up_seconds = 0.3,
         .rest_milliseconds = 200,
         .seed = 0};
  m.rounds = words.rounds.value_or(m.rounds);
  m.burst_milliseconds = words.burst.value_or(m.burst_milliseconds);
  m.least_launches = words.least_launches.value_or(m.least_launches);
  m.warm_up_seconds = words.warm_up.value_or(m.warm_up_seconds);
  m.rest_milliseconds = words.rest.value_or(m.rest_milliseconds);
  if (words.brief_check) m.checked_elements = 24, m.compares_rows = false;
  m.energy_seconds = words.energy.value_or(0);
  m.seed = words.seed ? *words.seed : std::random_device()();
  return m;
}

void check_device(const std::string& device) {
  if (device == "cuda" || device == "auto") return;
  if (device == "emulator")
    throw Error(
        "--device emulator: a benchmark needs a Hopper GPU, since the speed of an emulator says "
        "nothing of one; `ptxb run` verifies kernels on the emulator");
  throw UsageError(fmt::format("--device '{}' is not cuda", device));
}

}  // namespace

Options parse_options(const std::vector<std::string>& words) {
  Options options;
  Words chosen;
  const command::CommandLine line(
      "Measures this project's matrix products beside cuBLASLt, interleaved and paired", "gemm_bench");
  add_shape_options(line.arguments(), chosen);
  add_method_options(line.arguments(), chosen, options);
  add_contender_options(line.arguments(), chosen, options);
  add_output_options(line.arguments(), options);
  line.parse(words);
  check_device(chosen.device);
  try {
    const ShapeSet& set = shape_set(chosen.set);
    options.types = chosen_types(chosen, set);
    options.method = chosen_method(chosen);
    options.shapes = chosen_shapes(chosen, set, options.method.seed);
    options.regimes = chosen_regimes(chosen);
    options.peers = chosen_peers(chosen);
    if (options.contenders.empty() && set.steps) options.contenders = {"all"};
  } catch (const UsageError&) {
    throw;
  } catch (const Error& e) {
    throw UsageError(e.what());
  }
  options.with_cublaslt = !chosen.no_cublaslt;
  options.ours.driver_assembles = chosen.driver;
  options.ours.cache = !chosen.no_cache;
  options.ours.seed = options.method.seed;
  return options;
}

}  // namespace ptxbuilder::bench
