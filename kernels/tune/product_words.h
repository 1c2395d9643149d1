// Parses a matrix product on the command line, which consists of M N K and of options for types and layout.
#pragma once

#include <string>

#include "kernels/family/command_line.h"
#include "kernels/measure/problem.h"

namespace ptxbuilder::bench {

struct ProductWords {
  GemmProblem sizes;  // only m, n and k are used
  std::string dtype = "bf16", d_type, layout = "TN";
  bool slow_accumulation = false;

  // Returns the problem. Throws UsageError if --slow-accumulation is used with a type that has no fast
  // accumulation.
  GemmProblem problem() const;
};

// Adds M, N, K, --dtype, --d-type, --layout and --slow-accumulation, which set `words`. Returns the last of
// these options.
command::Option add_product(const command::Arguments& app, ProductWords& words);

}  // namespace ptxbuilder::bench
