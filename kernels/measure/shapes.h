// The products that the benchmark runs, and their weights in its score.
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

// A set of shapes, and the element types that their matrices have.
struct ShapeSet {
  std::string name;
  std::string help;
  GemmProblem types;  // m, n and k are not set
  std::vector<Shape> shapes;
  bool steps = false;  // whether the steps towards the matrix product take part
  // Draws `count` random shapes; set if the set has no fixed shapes.
  std::function<std::vector<Shape>(uint64_t seed, int count)> draw = nullptr;
};

// Returns the sets:
// - bf16: all groups of shapes; their weights sum to 100.
// - fp8: e4m3, without the groups seed and odd; the weights sum to 83.
// - seed: 7296 x 256 x K with f16 operands and f32 results, cold and warm, each with a weight of 1.
// - drawn, fit, deep and fit-deep: bf16, drawn with a seed (drawn_shapes.h).
std::span<const ShapeSet> shape_sets();
const ShapeSet& shape_set(const std::string& name);  // throws an Error that lists the names

// Returns the shapes of the given groups in the set's order, or all shapes if no group is given. If a group
// does not exist, throws an Error that lists the groups.
std::vector<Shape> shapes_of(const ShapeSet& set, std::span<const std::string> groups);

// Throws Error if one of `groups` is not in `known`.
void check_groups(const std::string& set, const std::vector<std::string>& known,
                  std::span<const std::string> groups);

// Works like shapes_of() for a list of any type with a member `group`, such as Shape or Case. `set` is the
// set's name in messages.
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

// These functions return the problem that has a shape and the types of another problem. problem_of() returns
// it as a problem, and case_of() as a case of the benchmark.
GemmProblem problem_of(const GemmProblem& types, const Shape& shape);
Case case_of(const GemmProblem& types, const Shape& shape);

// Parses "4096x4096x8192", "4096x4096x8192:2.5" with a weight, or "4096x4096x8192:2.5:warm". If the text is
// not valid, throws an Error that shows the form.
Shape parse_shape(const std::string& text);

}  // namespace ptxbuilder::bench
