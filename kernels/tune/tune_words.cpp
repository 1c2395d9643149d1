#include "kernels/tune/tune_words.h"

#include <random>

namespace ptxbuilder::bench {

MethodOptions TuneWords::method_options() const {
  MethodOptions options = method;
  options.seed = seed ? *seed : std::random_device()();
  return options;
}

OurOptions TuneWords::our_options() const {
  OurOptions options = ours;
  options.cache = !no_cache;
  return options;
}

void add_tune_options(const command::Arguments& app, TuneWords& w) {
  app.option("--rounds", w.method.rounds, "number of rounds, in each of which all tiles run once")
      .from(1, 10000)
      .with_default();
  app.option("--burst-ms", w.method.burst_milliseconds,
             "the least duration of a burst of launches in a round")
      .from(0.1, 10000.0)
      .with_default();
  app.option("--warm-up", w.method.warm_up_seconds,
             "seconds of warm-up before the first round of each problem")
      .from(0.0, 600.0)
      .with_default();
  app.option("--seed", w.seed, "seed of data and order; random by default");
  app.option("--ptxas", w.ours.ptxas,
             "the ptxas to use; by default the one in PATH, CUDA_PATH or /usr/local");
  app.flag("--driver-assembles", w.ours.driver_assembles,
           "let the driver compile PTX, even if ptxas is available");
  app.flag("--no-cache", w.no_cache, "compile again, and do not use the cache");
}

}  // namespace ptxbuilder::bench
