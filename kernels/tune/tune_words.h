// The options that all tuning commands have.
#pragma once

#include <optional>

#include "kernels/family/command_line.h"
#include "kernels/measure/interleave.h"
#include "kernels/tune/our_options.h"

namespace ptxbuilder::bench {

struct TuneWords {
  MethodOptions method;
  OurOptions ours;
  std::optional<uint64_t> seed;
  bool no_cache = false;

  // Returns the options of the method. The seed is random unless the command line sets it.
  MethodOptions method_options() const;
  OurOptions our_options() const;
};

// Adds --rounds, --burst-ms, --warm-up, --seed, --ptxas, --driver-assembles and --no-cache, which set
// `words`.
void add_tune_options(const command::Arguments& app, TuneWords& words);

}  // namespace ptxbuilder::bench
