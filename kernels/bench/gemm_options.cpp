#include "kernels/bench/gemm_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

namespace ptxbuilder::bench {
namespace {

struct GemmWords : CommonWords {
  std::string set = "bf16", dtype, d_type, layout;
  std::vector<std::string> groups, shapes;
  bool slow_accumulation = false, no_cublaslt = false;
  std::optional<int> count;
};

void add_shape_options(const command::Arguments& app, GemmWords& words) {
  app.option("--set", words.set,
             "bf16, fp8, or seed (f16 to f32, 7296 x 256 x K); drawn: shapes that --seed draws; deep: the "
             "same with few tiles and a long k; fit and fit-deep: other shapes, to which the choice of tiles "
             "may be fitted")
      .shown_as("NAME");
  app.option("--count", words.count, "shapes of a set that a seed draws (40)").from(1, 10000).shown_as("N");
  app.option("--shapes", words.groups, "groups of the set, separated by commas; all unless given")
      .by_comma()
      .shown_as("GROUP,...");
  app.option("--shape", words.shapes, "a shape instead of the set's; may be repeated")
      .shown_as("MxNxK[:WEIGHT[:warm]]");
  app.option("--dtype", words.dtype,
             "type of A and B: bf16 f16 tf32 e4m3 e5m2 s8; that of the set unless given")
      .shown_as("TYPE");
  app.option("--d-type", words.d_type,
             "type of D: f32 f16 bf16, or s32 for s8; else A's if it has 16 bits, and bf16 for 8 bits")
      .shown_as("TYPE");
  app.option("--layout", words.layout, "TN NN NT TT, as cuBLAS is called for row-major data")
      .shown_as("LETTERS");
  app.flag("--slow-accumulation", words.slow_accumulation, "promote sums of fp8 products to f32 along k");
}

void add_contender_options(const command::Arguments& app, GemmWords& words, GemmOptions& options) {
  app.option("--contenders", options.contenders,
             "those that run, separated by commas, or all, as with --set seed; else all except "
             "kernels/steps. Contenders of other options always run")
      .by_comma()
      .shown_as("NAME,...");
  app.option("--tiles", options.ours.tiles,
             "tiles of ours to compare, separated by commas: 128x256_4_2x1,64x128_pp")
      .by_comma()
      .shown_as("TILE,...");
  app.option("--tune", options.ours.candidates,
             "measure the model's first N tiles for each shape, in addition to the chosen one")
      .from(1, 100)
      .shown_as("N");
  app.option("--diverse", options.ours.diverse,
             "and N more, drawn among the tiles that the model predicts to take up to 1.5 times the time of "
             "its first")
      .from(1, 100)
      .shown_as("N");
  app.flag("--at-run-time", options.ours.tuned,
           "measure also a Matmul that tunes itself: it measures a shape at its first call");
  app.option("--tuned", options.tuned, "put the fastest into this table, as rows of kernels/gemm/tuned.def")
      .shown_as("FILE");
  app.flag("--no-cublaslt", words.no_cublaslt, "without the reference: only times and checks");
  add_peer_options(app, words, options);
  app.option("--cublaslt", options.cublaslt, "libcublasLt.so.13 or .12; searched for unless given")
      .shown_as("FILE");
  add_compiler_options(app, words, options);
}

void add_output_options(const command::Arguments& app, GemmOptions& options) {
  add_report_options(app, options);
  app.option("--times", options.times, "write the times of ours as lines that `ptxb tune model` reads")
      .shown_as("FILE");
  add_chart_option(app, options);
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
      fmt::format("--d-type {} with --dtype {}: products of s8 are s32, and products of other types are not",
                  name(p.d), name(p.a)));
}

GemmProblem chosen_types(const GemmWords& words, const ShapeSet& set) {
  GemmProblem p = set.types;
  if (!words.dtype.empty()) {
    p.a = p.b = type_among(words.dtype, "--dtype",
                           {DType::bf16, DType::f16, DType::tf32, DType::e4m3, DType::e5m2, DType::s8});
    // The type of A determines the type of D, unless A has the type that the set specifies.
    if (p.a != set.types.a)
      p.d = p.a == DType::s8 ? DType::s32 : p.a == DType::tf32 ? DType::f32 : is_fp8(p.a) ? DType::bf16 : p.a;
    // cuBLASLt multiplies e5m2 only with e4m3.
    if (p.a == DType::e5m2) p.b = DType::e4m3;
  }
  if (!words.d_type.empty())
    p.d = type_among(words.d_type, "--d-type", {DType::f32, DType::f16, DType::bf16, DType::s32});
  if (!words.layout.empty()) p.set_layout(words.layout);
  if (words.slow_accumulation) p.accumulate_slowly();
  check_output_type(p);
  return p;
}

std::vector<Shape> chosen_shapes(const GemmWords& words, ShapeSet set, uint64_t seed) {
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

}  // namespace

GemmOptions parse_gemm_options(const std::vector<std::string>& words) {
  GemmOptions options;
  GemmWords chosen;
  const command::CommandLine line(
      "Measures this project's matrix products and cuBLASLt in interleaved, paired rounds", "gemm_bench");
  add_shape_options(line.arguments(), chosen);
  add_method_options(line.arguments(), chosen, options);
  add_contender_options(line.arguments(), chosen, options);
  add_output_options(line.arguments(), options);
  line.parse(words);
  check_device(chosen);
  read_words([&] {
    const ShapeSet& set = shape_set(chosen.set);
    options.types = chosen_types(chosen, set);
    settle(chosen, options);
    for (const Shape& shape : chosen_shapes(chosen, set, options.method.seed))
      options.cases.push_back(case_of(options.types, shape));
    if (options.contenders.empty() && set.steps) options.contenders = {"all"};
  });
  options.with_cublaslt = !chosen.no_cublaslt;
  return options;
}

}  // namespace ptxbuilder::bench
