// The options that every benchmark has on its command line.
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
  double time_limit_seconds = 0;        // of the whole run; 0 for none
  std::vector<std::string> contenders;  // by name; "all"; empty for all but the steps
  bool list = false;                    // print the shapes, and end
  std::vector<PeerCommand> peers;       // processes
  double peer_limit_seconds = 300;      // of one answer of a peer
  OurOptions ours;
  std::string json, markdown, svg;  // files to write
};

using command::HelpAsked;
using command::UsageError;

// The values of the command line's words, from which the options are set once all words are parsed.
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

// Throws Error for the emulator, and UsageError if it is not a device.
void check_device(const CommonWords& words);

// Sets everything except the cases, which may depend on the seed. Throws UsageError.
void settle(const CommonWords& words, Options& options);

// Calls `read`, and turns its Error into a UsageError.
void read_words(const std::function<void()>& read);

}  // namespace ptxbuilder::bench
