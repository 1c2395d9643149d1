// Random layouts for the tests of the layout algebra.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <random>

#include "ptxbuilder/layout/expression.h"

namespace ptxbuilder::test {

// To repeat a run, set the environment variable LAYOUT_SEED to its seed.
inline uint32_t layout_seed() {
  static const uint32_t seed = [] {
    const char* given = std::getenv("LAYOUT_SEED");
    return given ? static_cast<uint32_t>(std::strtoul(given, nullptr, 10)) : std::random_device()();
  }();
  return seed;
}

class LayoutMaker {
 public:
  explicit LayoutMaker(uint32_t seed) : engine_(seed) {}

  int pick(int below) { return std::uniform_int_distribution<int>(0, below - 1)(engine_); }
  int one_of(std::initializer_list<int> values) {
    return values.begin()[pick(static_cast<int>(values.size()))];
  }

  // Returns a random shape of at most 1024 elements.
  IntTuple shape(int deepest = 2, int widest = 3) {
    for (;;)
      if (IntTuple result = any_shape(deepest, widest); size(result) <= 1024) return result;
  }

  enum Kind { compact, gaps, zeros, any };
  // Returns a layout whose modes are in random order. `kind` determines whether it is compact, has gaps, has
  // modes of stride 0, or has arbitrary strides.
  Layout layout(const IntTuple& shape, Kind kind) {
    std::vector<IntTuple> shapes = leaves(shape), strides(shapes.size());
    std::vector<size_t> order;
    for (size_t i = 0; i < shapes.size(); ++i) order.push_back(i);
    std::shuffle(order.begin(), order.end(), engine_);
    int64_t next = 1;
    for (size_t i : order) {
      if (kind == any) {
        strides[i] = one_of({0, 1, 1, 2, 3, 4, 5, 8, 12, 16});
        continue;
      }
      if (kind == zeros && pick(3) == 0) continue;  // stays 0
      if (kind == gaps) next *= one_of({1, 1, 2, 3});
      strides[i] = next;
      next *= shapes[i].value();
    }
    return unflatten(Layout(IntTuple(shapes), IntTuple(strides)), shape);
  }
  Layout layout(Kind kind) { return layout(shape(), kind); }
  Layout layout() { return layout(static_cast<Kind>(pick(4))); }

 private:
  IntTuple any_shape(int deepest, int widest) {
    if (deepest == 0 || pick(9) < 4) return one_of({1, 2, 2, 3, 4, 4, 6, 8});
    std::vector<IntTuple> modes;
    for (int n = 1 + pick(widest); n > 0; --n) modes.push_back(any_shape(deepest - 1, widest));
    return IntTuple(std::move(modes));
  }

  std::mt19937 engine_;
};

}  // namespace ptxbuilder::test
