#include "kernels/measure/drawn_shapes.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <random>

namespace ptxbuilder::bench {
namespace {

// Draws random numbers. The numbers for a seed are the same with every standard library, unlike those of the
// distributions in <random>.
class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}

  int64_t below(int64_t end) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(end)); }
  template <class T, size_t N>
  T among(const T (&values)[N]) {
    return values[below(N)];
  }
  // Draws a log-uniform multiple of `step`.
  int64_t between(int64_t low, int64_t high, int64_t step = 1) {
    const double share = static_cast<double>(random_() >> 11) * 0x1p-53;
    const double value = static_cast<double>(low) *
                         std::exp(share * std::log(static_cast<double>(high) / static_cast<double>(low)));
    return std::clamp<int64_t>(std::llround(value / static_cast<double>(step)) * step, low, high);
  }

 private:
  std::mt19937_64 random_;
};

int64_t round_up(double value, int64_t to) {
  return static_cast<int64_t>(std::ceil(value / static_cast<double>(to))) * to;
}

int64_t tokens(Draw& draw) {
  switch (draw.below(4)) {
    case 0:
      return int64_t{1} << draw.below(15);  // 1 to 16384
    case 1:
      return draw.between(1, 16384);
    default:
      return draw.between(8, 16384, 8);
  }
}

// Draws a product of a transformer layer. It is divided among devices along the dimension that tensor
// parallelism splits.
Shape layer(Draw& draw) {
  constexpr int64_t kHidden[] = {1024, 1536, 2048, 2560, 2880,  3072,  3584, 4096,
                                 5120, 6144, 7168, 8192, 10240, 12288, 16384};
  constexpr double kWider[] = {2.625, 2.6875, 3.5, 4, 5.375};
  constexpr int64_t kVocabulary[] = {32000, 50304, 65536, 102400, 128256, 129280, 151936, 256000};
  const int64_t hidden = draw.among(kHidden), head = draw.among({64, 128, 128});
  const int64_t heads = std::max<int64_t>(1, hidden / head), devices = draw.among({1, 1, 1, 2, 4, 8});
  const int64_t key_heads = std::min<int64_t>(heads, draw.among({2, 4, 8, 8, 128}));
  const int64_t wide = round_up(static_cast<double>(hidden) * draw.among(kWider), 256);
  Shape s = {.group = "layer", .m = tokens(draw)};
  switch (draw.below(9)) {
    case 0:
    case 1:  // queries, keys and values
      s.n = (heads + 2 * key_heads) * head / devices, s.k = hidden;
      break;
    case 2:  // the projection of the heads' outputs
      s.n = hidden, s.k = heads * head / devices;
      break;
    case 3:
    case 4:  // gate and up, or only up
      s.n = wide * draw.among({1, 2}) / devices, s.k = hidden;
      break;
    case 5:
    case 6:  // down
      s.n = hidden, s.k = wide / devices;
      break;
    case 7:  // down, for one of many experts
      s.n = hidden, s.k = round_up(static_cast<double>(wide) / 8, 64);
      break;
    default:  // logits
      s.n = draw.among(kVocabulary) / devices, s.k = hidden;
  }
  return s;
}

Shape uniform(Draw& draw) {
  const int64_t step = draw.among({8, 64});
  return {.group = "uniform",
          .m = draw.between(16, 16384, step),
          .n = draw.between(64, 32768, step),
          .k = draw.between(64, 65536, step)};
}

Shape odd(Draw& draw) {
  return {
      .group = "odd", .m = draw.between(1, 8192), .n = draw.between(33, 8192), .k = draw.between(33, 16384)};
}

Shape deep(Draw& draw) {
  const int64_t step = draw.among({8, 64});
  return {.group = "deep",
          .m = draw.between(32, 1024, step),
          .n = draw.between(64, 4096, step),
          .k = draw.between(4096, 65536, step)};
}

bool is_of_a_set(const Shape& s) {
  for (const ShapeSet& set : shape_sets())
    for (const Shape& other : set.shapes)
      if (s.m == other.m && s.n == other.n && s.k == other.k) return true;
  return false;
}

bool within_bounds(const Shape& s) {
  const auto m = static_cast<double>(s.m), n = static_cast<double>(s.n), k = static_cast<double>(s.k);
  return s.m > 0 && s.n > 0 && s.k > 0 && m * n * k <= 0x1p42 && 2 * (m * k + n * k + m * n) <= 0x1p31;
}

// Draws shapes for the purpose; `shape` is called with the index of each shape.
template <class Function>
std::vector<Shape> drawn(Purpose purpose, uint64_t seed, int count, Function shape) {
  Draw draw(seed);
  std::vector<Shape> all;
  while (static_cast<int>(all.size()) < count) {
    const Shape s = shape(draw, all.size());
    if (within_bounds(s) && purpose_of(s.n, s.k) == purpose && !is_of_a_set(s)) all.push_back(s);
  }
  return all;
}

}  // namespace

Purpose purpose_of(int64_t n, int64_t k) {
  // The finalizer of SplitMix64 (Steele, Lea and Flood) makes the lowest bit depend on all bits of n and k.
  uint64_t hash = static_cast<uint64_t>(n) << 32 ^ static_cast<uint64_t>(k);
  hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9;
  hash = (hash ^ hash >> 27) * 0x94d049bb133111eb;
  return (hash ^ hash >> 31) % 2 == 0 ? Purpose::test : Purpose::fit;
}

std::vector<Shape> drawn_shapes(Purpose purpose, uint64_t seed, int count) {
  return drawn(purpose, seed, count, [](Draw& draw, size_t index) {
    const size_t turn = index % 8;
    return turn == 7 ? odd(draw) : turn % 2 == 0 ? layer(draw) : uniform(draw);
  });
}

std::vector<Shape> deep_shapes(Purpose purpose, uint64_t seed, int count) {
  return drawn(purpose, seed, count, [](Draw& draw, size_t) {
    Shape s = deep(draw);
    while (s.m * s.n > 1 << 20) s = deep(draw);
    return s;
  });
}

}  // namespace ptxbuilder::bench
