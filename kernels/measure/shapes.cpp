#include "kernels/measure/shapes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "kernels/gemm/split.h"
#include "kernels/measure/drawn_shapes.h"
#include "ptxbuilder/error.h"

namespace ptxbuilder::bench {
namespace {

struct Width {
  int64_t n, k;
};

void add(std::vector<Shape>& all, const std::string& group, double weight, std::initializer_list<int64_t> ms,
         std::initializer_list<Width> widths) {
  for (int64_t m : ms)
    for (const Width& w : widths) all.push_back({group, m, w.n, w.k, weight, false});
}

// Adds the layers of published models, which are qkv, o, gate and up, and down.
void add_models(std::vector<Shape>& all) {
  add(all, "llama70b", 3, {4096}, {{10240, 8192}, {8192, 8192}, {57344, 8192}, {8192, 28672}});
  add(all, "llama70b-tp8", 1.5, {512, 4096}, {{1280, 8192}, {8192, 1024}, {7168, 8192}, {8192, 3584}});
  add(all, "llama405b-tp8", 2.5, {4096}, {{2304, 16384}, {16384, 2048}, {13312, 16384}, {16384, 6656}});
  add(all, "deepseek", 1.25, {128, 4096},
      {{2112, 7168}, {24576, 1536}, {32768, 512}, {7168, 16384}, {4096, 7168}, {7168, 2048}});
  add(all, "decode", 1, {1, 16, 64}, {{10240, 8192}, {57344, 8192}, {8192, 28672}});
}

void add_seed(std::vector<Shape>& all, std::initializer_list<int64_t> ks) {
  for (bool warm : {false, true})
    for (int64_t k : ks) all.push_back({"seed", 7296, 256, k, 1, warm});
}

std::vector<Shape> square() {
  std::vector<Shape> all;
  const Shape cubes[] = {{"square", 1024, 1024, 1024, 3},
                         {"square", 2048, 2048, 2048, 4},
                         {"square", 4096, 4096, 4096, 7},
                         {"square", 8192, 8192, 8192, 7},
                         {"square", 16384, 16384, 16384, 4}};
  all.assign(std::begin(cubes), std::end(cubes));
  return all;
}

std::vector<Shape> bf16_shapes() {
  std::vector<Shape> all = square();
  add_models(all);
  add_seed(all, {512, 1024, 2048, 4096, 8192});
  add(all, "odd", 1.75, {4095}, {{4097, 4096}});
  add(all, "odd", 1.75, {1000}, {{1000, 1000}});
  add(all, "odd", 1.75, {128}, {{129280, 7168}});
  add(all, "odd", 1.75, {16384}, {{16384, 1024}});
  return all;
}

std::vector<Shape> fp8_shapes() {
  std::vector<Shape> all = square();
  add_models(all);
  return all;
}

std::vector<Shape> seed_shapes() {
  std::vector<Shape> all;
  add_seed(all, {256, 512, 1024, 2048, 4096, 8192});
  return all;
}

GemmProblem types(DType input, DType output, const char* layout) {
  GemmProblem p;
  p.a = p.b = input;
  p.d = output;
  p.set_layout(layout);
  return p;
}

template <class T>
bool parse_number(std::string_view text, T& value) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value > 0;
}

}  // namespace

std::span<const ShapeSet> shape_sets() {
  static const std::vector<ShapeSet> all = {
      {"bf16", "bf16 to bf16: squares, layers of models, decoding, odd ones",
       types(DType::bf16, DType::bf16, "TN"), bf16_shapes()},
      {"fp8", "e4m3 to bf16: squares, layers of models, decoding", types(DType::e4m3, DType::bf16, "TN"),
       fp8_shapes()},
      {"seed", "f16 to f32, 7296 x 256 x K: tall and narrow", types(DType::f16, DType::f32, "NN"),
       seed_shapes(), true},
      {.name = "drawn",
       .help = "bf16 to bf16: drawn by the seed, to judge a choice of tiles",
       .types = types(DType::bf16, DType::bf16, "TN"),
       .shapes = {},
       .draw = [](uint64_t seed, int count) { return drawn_shapes(Purpose::test, seed, count); }},
      {.name = "fit",
       .help = "the same, to fit a choice of tiles: none of these shapes is ever in the set drawn",
       .types = types(DType::bf16, DType::bf16, "TN"),
       .shapes = {},
       .draw = [](uint64_t seed, int count) { return drawn_shapes(Purpose::fit, seed, count); }},
      {.name = "deep",
       .help = "bf16 to bf16: few tiles and a long k, drawn by the seed, to judge a choice of tiles",
       .types = types(DType::bf16, DType::bf16, "TN"),
       .shapes = {},
       .draw = [](uint64_t seed, int count) { return deep_shapes(Purpose::test, seed, count); }},
      {.name = "fit-deep",
       .help = "the same, to fit a choice of tiles",
       .types = types(DType::bf16, DType::bf16, "TN"),
       .shapes = {},
       .draw = [](uint64_t seed, int count) { return deep_shapes(Purpose::fit, seed, count); }}};
  return all;
}

const ShapeSet& shape_set(const std::string& name) {
  std::vector<std::string> known;
  for (const ShapeSet& set : shape_sets()) {
    if (set.name == name) return set;
    known.push_back(set.name);
  }
  throw Error(fmt::format("no shape set is named '{}'; the sets are {}", name, fmt::join(known, ", ")));
}

void check_groups(const std::string& set, const std::vector<std::string>& known,
                  std::span<const std::string> groups) {
  for (const std::string& group : groups)
    if (std::find(known.begin(), known.end(), group) == known.end())
      throw Error(fmt::format("the shape set '{}' has no group '{}'; its groups are {}", set, group,
                              fmt::join(known, ", ")));
}

std::vector<Shape> shapes_of(const ShapeSet& set, std::span<const std::string> groups) {
  return of_groups(set.name, set.shapes, groups);
}

GemmProblem problem_of(const GemmProblem& types, const Shape& shape) {
  GemmProblem p = types;
  p.m = shape.m;
  p.n = shape.n;
  p.k = shape.k;
  return p;
}

Case case_of(const GemmProblem& types, const Shape& shape) {
  return {shape.group, problem_of(types, shape), shape.weight, shape.warm};
}

Shape parse_shape(const std::string& text) {
  Shape s;
  s.group = "given";
  const std::vector<std::string_view> parts = kernels::split(text, ':'),
                                      sizes = kernels::split(parts[0], 'x');
  bool right = sizes.size() == 3 && parse_number(sizes[0], s.m) && parse_number(sizes[1], s.n) &&
               parse_number(sizes[2], s.k) && parts.size() <= 3;
  if (right && parts.size() >= 2) right = parse_number(parts[1], s.weight);
  if (right && parts.size() == 3) right = s.warm = parts[2] == "warm";
  if (!right)
    throw Error(
        fmt::format("shape '{}' is not MxNxK, MxNxK:WEIGHT or MxNxK:WEIGHT:warm, as 4096x4096x8192:2", text));
  return s;
}

}  // namespace ptxbuilder::bench
