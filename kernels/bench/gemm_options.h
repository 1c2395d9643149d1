// The command line of gemm_bench.
#pragma once

#include "kernels/bench/options.h"
#include "kernels/measure/shapes.h"

namespace ptxbuilder::bench {

struct GemmOptions : Options {
  GemmProblem types;  // the types of all shapes; m, n and k are not set
  bool with_cublaslt = true;
  std::string cublaslt;      // a file; "": search for it
  std::string tuned, times;  // files to write
};

// Parses the words of a command line, without the program's name. Throws UsageError and HelpAsked, like
// CommandLine.
GemmOptions parse_gemm_options(const std::vector<std::string>& words);

}  // namespace ptxbuilder::bench
