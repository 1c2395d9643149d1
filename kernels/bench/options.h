// The command line of gemm_bench.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/bench/peers/peer.h"
#include "kernels/family/command_line.h"
#include "kernels/measure/contender.h"
#include "kernels/measure/interleave.h"
#include "kernels/measure/shapes.h"

namespace ptxbuilder::bench {

struct Options {
  std::vector<Shape> shapes;
  GemmProblem types;  // of all shapes; m, n and k unset
  std::vector<Regime> regimes = {Regime::sustained};
  MethodOptions method;
  double time_limit_seconds = 0;        // of the whole run; 0 for none
  std::vector<std::string> contenders;  // by name; "all"; none for all but the steps
  bool list = false;                    // print shapes and contenders' names, and end
  bool with_cublaslt = true;
  std::string cublaslt;             // a file, or "" to search
  std::vector<PeerCommand> peers;   // processes
  double peer_limit_seconds = 300;  // of one answer of a peer
  OurOptions ours;
  std::string json, markdown, svg, tuned, times;  // files to write
};

using command::HelpAsked;
using command::UsageError;

// What the words of a command line, without the program's name, ask for. Throws UsageError and HelpAsked, as
// CommandLine does.
Options parse_options(const std::vector<std::string>& words);

}  // namespace ptxbuilder::bench
