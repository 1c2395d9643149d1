// Times bursts. A burst is a series of back-to-back launches that rotate among buffer sets and are timed
// together.
#pragma once

#include <functional>
#include <optional>

#include "kernels/measure/gpu.h"

namespace ptxbuilder::bench {

class Burst {
 public:
  // Prepares a burst of at least `launches` launches. `launch(set)` queues one launch on the device; it is
  // called for the sets 0 to `sets` - 1, one after the other. `microseconds` is the approximate time of a
  // launch. It determines the size of a graph, which holds about 2 ms of launches and the same number of
  // launches for every set.
  Burst(const Gpu& gpu, size_t sets, size_t launches, double microseconds,
        const std::function<void(size_t)>& launch);

  size_t launches() const { return per_graph_ * graphs_; }

  // Runs the burst and returns the microseconds per launch. `meanwhile` runs on the host while the GPU works.
  double run(const std::function<void()>& meanwhile = [] {}) const;

 private:
  const Gpu& gpu_;
  size_t per_graph_, graphs_;
  Graph graph_;
};

// Returns the approximate time of a launch in microseconds, measured with one synchronous launch and a short
// burst.
double estimate(const Gpu& gpu, size_t sets, const std::function<void(size_t)>& launch);

}  // namespace ptxbuilder::bench
