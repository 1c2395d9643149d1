// The products that the benchmark runs, with the weights with which its score counts them.
#pragma once

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kernels/measure/workload.h"

namespace ptxbuilder::bench {

struct Shape {
  std::string group;
  int64_t m = 0, n = 0, k = 0;
  double weight = 1;
  bool warm = false;  // as in Case
};

// A shape set with the types in which it is run.
struct ShapeSet {
  std::string name;
  std::string help;
  GemmProblem types;  // m, n and k unset
  std::vector<Shape> shapes;
  bool steps = false;  // the kernels that lead to the matrix product take part
  // A set without shapes of its own draws this number with a seed.
  std::function<std::vector<Shape>(uint64_t seed, int count)> draw = nullptr;
};

// bf16: all groups, whose weights sum to 100. fp8: e4m3 without the groups seed and odd, 83. seed: 7296 x 256
// x K in f16 to f32, cold and warm, 1 each. drawn, fit, deep and fit-deep: bf16, drawn by a seed
// (drawn_shapes.h).
std::span<const ShapeSet> shape_sets();
const ShapeSet& shape_set(const std::string& name);  // throws Error that lists the names

// Returns the shapes of the groups, in the set's order; all shapes if no group is given. Throws Error that
// lists the groups.
std::vector<Shape> shapes_of(const ShapeSet& set, std::span<const std::string> groups);

// Throws Error if a group is not known.
void check_groups(const std::string& set, const std::vector<std::string>& known,
                  std::span<const std::string> groups);

// Does the same for any type with a `group`, such as Shape and Case. Messages call it `set`.
template <class Shapes>
Shapes of_groups(const std::string& set, const Shapes& shapes, std::span<const std::string> groups) {
  std::vector<std::string> known;
  for (const auto& s : shapes)
    if (std::find(known.begin(), known.end(), s.group) == known.end()) known.push_back(s.group);
  check_groups(set, known, groups);
  Shapes chosen;
  for (const auto& s : shapes)
    if (groups.empty() || std::find(groups.begin(), groups.end(), s.group) != groups.end())
      chosen.push_back(s);
  return chosen;
}

// These functions return the problem of a shape in the types of another problem, and as a case of the
// benchmark.
GemmProblem problem_of(const GemmProblem& types, const Shape& shape);
Case case_of(const GemmProblem& types, const Shape& shape);

// "4096x4096x8192", "4096x4096x8192:2.5" with a weight, "4096x4096x8192:2.5:warm". Throws Error that shows
// the form.
Shape parse_shape(const std::string& text);

}  // namespace ptxbuilder::bench
