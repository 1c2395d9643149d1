// The command line of gemm_bench.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/bench/contender.h"
#include "kernels/bench/interleave.h"
#include "kernels/bench/peer.h"
#include "kernels/bench/shapes.h"

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
  std::string json, markdown, svg, tuned;  // files to write
};

// What the words of a command line, without the program's name, ask for. Throws UsageError that says what is
// wrong and what is legal; HelpAsked holds the text of --help.
class UsageError : public Error {
 public:
  using Error::Error;
};
struct HelpAsked {
  std::string text;
};
Options parse_options(const std::vector<std::string>& words);

}  // namespace ptxbuilder::bench
