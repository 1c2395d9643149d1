// The command line of attention_bench.
#pragma once

#include "kernels/bench/options.h"

namespace ptxbuilder::bench {

// Parses the words of a command line, without the program's name. Throws UsageError or HelpAsked, like
// CommandLine.
Options parse_attention_options(const std::vector<std::string>& words);

}  // namespace ptxbuilder::bench
