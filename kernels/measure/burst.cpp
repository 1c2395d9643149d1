#include "kernels/measure/burst.h"

#include <algorithm>
#include <cmath>

namespace ptxbuilder::bench {
namespace {

constexpr double kGraphMicroseconds = 2000;  // long compared with the gap between two graphs, about 2 us

size_t launches_per_graph(size_t sets, double microseconds) {
  const double rounds = kGraphMicroseconds / std::max(microseconds, 1.0) / static_cast<double>(sets);
  return sets * static_cast<size_t>(std::max(1.0, std::round(rounds)));
}

}  // namespace

Burst::Burst(const Gpu& gpu, size_t sets, size_t launches, double microseconds,
             const std::function<void(size_t)>& launch)
    : gpu_(gpu),
      per_graph_(launches_per_graph(sets, microseconds)),
      graphs_((std::max<size_t>(launches, 1) + per_graph_ - 1) / per_graph_),
      graph_(gpu, [&] {
        for (size_t i = 0; i < per_graph_; ++i) launch(i % sets);
      }) {}

double Burst::run(const std::function<void()>& meanwhile) const {
  auto queue = [this] {
    for (size_t i = 0; i < graphs_; ++i) graph_.launch();
  };
  return 1000 * gpu_.milliseconds(queue, meanwhile) / static_cast<double>(launches());
}

double estimate(const Gpu& gpu, size_t sets, const std::function<void(size_t)>& launch) {
  launch(0);
  gpu.device().synchronize();  // detects a kernel that hangs before the queue is full
  const double once = 1000 * gpu.milliseconds([&] { launch(0); });
  const Burst burst(gpu, sets, 1, once, launch);
  burst.run();
  return burst.run();
}

}  // namespace ptxbuilder::bench
