// Defines Problem, which is a problem of any operation in the benchmark. An operation is a class of problems
// that provides flops(), inputs(), output(), a Set with set(), size_text(), type_text(), axis_of() and
// expected_elements().
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "kernels/measure/attention_problem.h"
#include "kernels/measure/problem.h"

namespace ptxbuilder::bench {

using Problem = std::variant<GemmProblem, AttentionProblem>;

std::string size_text(const Problem& problem);
std::string type_text(const Problem& problem);
Axis axis_of(const Problem& problem);
double flops(const Problem& problem);
std::vector<Matrix> inputs(const Problem& problem);
Matrix output(const Problem& problem);
int64_t bytes(const Problem& problem);  // bytes of a set of buffers

// A problem with its weight, as a benchmark run uses it.
struct Case {
  std::string group;
  Problem problem;
  double weight = 1;  // weight in the score
  bool warm = false;  // true: all launches use the same buffers, which stay in L2 if they fit; false: buffers
                      // rotate
};

}  // namespace ptxbuilder::bench
