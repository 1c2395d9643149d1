// The command-line options of all benchmarks.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernels/bench/peers/peer.h"
#include "kernels/family/command_line.h"
#include "kernels/measure/contender.h"
#include "kernels/measure/interleave.h"
#include "kernels/tune/our_options.h"

namespace ptxbuilder::bench {

struct Options {
  std::vector<Case> cases;
  std::vector<Regime> regimes = {Regime::sustained};
  MethodOptions method;
  double time_limit_seconds = 0;        // for the entire run; 0: none
  std::vector<std::string> contenders;  // names; "all"; or empty for all except the steps
  bool list = false;                    // print the shapes and exit
  std::vector<PeerCommand> peers;       // contenders that run in other processes
  double peer_limit_seconds = 300;      // limit for one answer of a peer
  OurOptions ours;
  std::string json, markdown, svg;  // files to write
};

using command::HelpAsked;
using command::UsageError;

// The values of the command line's words; the options are set from these values after all words are parsed.
struct CommonWords {
  std::string device = "cuda";
  std::vector<std::string> regimes, peers;
  bool quick = false, no_cache = false, driver = false, brief_check = false;
  std::optional<int> rounds, least_launches;
  std::optional<double> burst, warm_up, rest, energy;
  std::optional<uint64_t> seed;
};

// Each function adds some of the options, in the order of the help.
void add_method_options(const command::Arguments& app, CommonWords& words, Options& options);
void add_peer_options(const command::Arguments& app, CommonWords& words, Options& options);
void add_compiler_options(const command::Arguments& app, CommonWords& words, Options& options);
void add_report_options(const command::Arguments& app, Options& options);
void add_chart_option(const command::Arguments& app, Options& options);

// Throws Error for the emulator, and UsageError if the word is not a device.
void check_device(const CommonWords& words);

// Sets everything except the cases, which may depend on the seed. Throws UsageError.
void settle(const CommonWords& words, Options& options);

// Calls `read`, and turns its Error into a UsageError.
void read_words(const std::function<void()>& read);

}  // namespace ptxbuilder::bench
