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
  app.option("--rounds", w.method.rounds, "in each of which all tiles run once")
      .from(1, 10000)
      .with_default();
  app.option("--burst-ms", w.method.burst_milliseconds,
             "that launches follow each other in a round, at least")
      .from(0.1, 10000.0)
      .with_default();
  app.option("--warm-up", w.method.warm_up_seconds, "before the first round of each problem, in seconds")
      .from(0.0, 600.0)
      .with_default();
  app.option("--seed", w.seed, "of data and order; fresh unless given");
  app.option("--ptxas", w.ours.ptxas, "the ptxas to take; else PATH, CUDA_PATH, /usr/local");
  app.flag("--driver-assembles", w.ours.driver_assembles,
           "compile PTX by the driver, though there is a ptxas");
  app.flag("--no-cache", w.no_cache, "compile anew, and keep nothing");
}

}  // namespace ptxbuilder::bench
