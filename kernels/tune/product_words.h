// A matrix product on the command line: M N K, and types and storage as options.
#pragma once

#include <string>

#include "kernels/family/command_line.h"
#include "kernels/measure/problem.h"

namespace ptxbuilder::bench {

struct ProductWords {
  GemmProblem sizes;  // m, n and k
  std::string dtype = "bf16", d_type, layout = "TN";
  bool slow_accumulation = false;

  // Throws UsageError for --slow-accumulation of a type without fast accumulation.
  GemmProblem problem() const;
};

// Adds M, N, K, --dtype, --d-type, --layout and --slow-accumulation, which write into `words`; returns the
// last of these options.
command::Option add_product(const command::Arguments& app, ProductWords& words);

}  // namespace ptxbuilder::bench
