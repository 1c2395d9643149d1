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
  double time_limit_seconds = 0;        // limit for the entire run; 0: no limit
  std::vector<std::string> contenders;  // names, or "all"; empty: all except the steps
  bool list = false;                    // whether to print the shapes and exit
  std::vector<PeerCommand> peers;       // contenders that run in other processes
  double peer_limit_seconds = 300;      // time limit for each answer of a peer
  OurOptions ours;
  std::string json, markdown, svg;  // paths of files to write; "": none
};

using command::HelpAsked;
using command::UsageError;

// The words of a command line from which settle() sets options once all words have been parsed.
struct CommonWords {
  std::string device = "cuda";
  std::vector<std::string> regimes, peers;
  bool quick = false, no_cache = false, driver = false, brief_check = false;
  std::optional<int> rounds, least_launches;
  std::optional<double> burst, warm_up, rest, energy;
  std::optional<uint64_t> seed;
};

// Each of these functions adds some of the options, in the order in which the help lists them.
void add_method_options(const command::Arguments& app, CommonWords& words, Options& options);
void add_peer_options(const command::Arguments& app, CommonWords& words, Options& options);
void add_compiler_options(const command::Arguments& app, CommonWords& words, Options& options);
void add_report_options(const command::Arguments& app, Options& options);
void add_chart_option(const command::Arguments& app, Options& options);

// Throws Error if the device is the emulator, and UsageError if the word is not a device.
void check_device(const CommonWords& words);

// Sets all options that `words` determines. The cases, which may depend on the seed, are not set. Throws
// UsageError if a word is not valid.
void settle(const CommonWords& words, Options& options);

// Calls `read`, and converts an Error that it throws to a UsageError.
void read_words(const std::function<void()>& read);

}  // namespace ptxbuilder::bench
