// A matrix product on the command line: M N K, with types and layout as options.
#pragma once

#include <string>

#include "kernels/family/command_line.h"
#include "kernels/measure/problem.h"

namespace ptxbuilder::bench {

struct ProductWords {
  GemmProblem sizes;  // only m, n and k are used
  std::string dtype = "bf16", d_type, layout = "TN";
  bool slow_accumulation = false;

  // Returns the problem. Throws UsageError for --slow-accumulation with a type that has no fast accumulation.
  GemmProblem problem() const;
};

// Adds M, N, K, --dtype, --d-type, --layout and --slow-accumulation, whose values go to `words`; returns the
// last of these options.
command::Option add_product(const command::Arguments& app, ProductWords& words);

}  // namespace ptxbuilder::bench
