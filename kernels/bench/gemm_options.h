// The command line of gemm_bench.
#pragma once

#include "kernels/bench/options.h"
#include "kernels/measure/shapes.h"

namespace ptxbuilder::bench {

struct GemmOptions : Options {
  GemmProblem types;  // the element types that all shapes have; m, n and k are not set
  bool with_cublaslt = true;
  std::string cublaslt;      // path of the library; "": search for it
  std::string tuned, times;  // paths of files to write or to update; "": none
};

// Parses the words of a command line, without the program's name. Throws UsageError or HelpAsked, like
// CommandLine.
GemmOptions parse_gemm_options(const std::vector<std::string>& words);

}  // namespace ptxbuilder::bench
