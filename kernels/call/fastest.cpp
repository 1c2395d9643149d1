#include "kernels/call/fastest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

namespace ptxbuilder::kernels {
namespace {

constexpr int kRounds = 7;
constexpr double kBurst = 500;  // duration of a burst in microseconds
constexpr size_t kMostLaunches = 200;
constexpr double kAlike = 1.005;  // smaller ratios of times are noise

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

size_t fastest(runtime::Device& device, size_t contenders, size_t sets, const QueueContender& queue) {
  auto record = [&](size_t i, size_t launches) {
    return device.capture([&](runtime::Stream stream) {
      for (size_t launch = 0; launch < launches; ++launch) queue(i, launch % sets, stream);
    });
  };
  auto time = [&](runtime::Graph& graph) { return device.time(0, 1, [&] { graph.launch(); })[0]; };
  double once = INFINITY;
  for (size_t i = 0; i < contenders; ++i) {  // one launch each, to detect a kernel that hangs before the
                                             // queue is full
    const auto graph = record(i, 1);
    time(*graph);
    once = std::min(once, time(*graph));
  }
  const auto launches =
      std::clamp<size_t>(static_cast<size_t>(kBurst / std::max(once, 1.0)), sets, kMostLaunches);
  std::vector<std::unique_ptr<runtime::Graph>> bursts;
  for (size_t i = 0; i < contenders; ++i) bursts.push_back(record(i, launches));
  std::vector<std::vector<double>> times(contenders);
  for (int round = 0; round < kRounds; ++round)
    for (size_t i = 0; i < contenders; ++i) times[i].push_back(time(*bursts[i]));
  std::vector<double> medians;
  for (std::vector<double>& of : times) medians.push_back(median(of));
  const double least = *std::min_element(medians.begin(), medians.end());
  return static_cast<size_t>(
      std::find_if(medians.begin(), medians.end(), [&](double t) { return t <= kAlike * least; }) -
      medians.begin());
}

}  // namespace ptxbuilder::kernels
