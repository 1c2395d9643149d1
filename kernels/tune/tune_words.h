// The options that the tuner's commands share.
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

  // Returns the options; the seed is random unless it was given.
  MethodOptions method_options() const;
  OurOptions our_options() const;
};

// Adds --rounds, --burst-ms, --warm-up, --seed, --ptxas, --driver-assembles and --no-cache, whose values go
// to `words`.
void add_tune_options(const command::Arguments& app, TuneWords& words);

}  // namespace ptxbuilder::bench
