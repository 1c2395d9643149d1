#include "kernels/tune/tune.h"

#include <algorithm>

namespace ptxbuilder::bench {

ShapeResult tune(const Gpu& gpu, const GemmProblem& problem, int top, const MethodOptions& options,
                 OurOptions ours) {
  ours.candidates = top;
  Contenders contenders = our_contenders(gpu, ours);
  std::erase_if(contenders, [&](const auto& c) {
    return c != contenders.front() && !c->name().starts_with("candidate ") &&
           std::find(ours.tiles.begin(), ours.tiles.end(), c->name()) == ours.tiles.end();
  });
  Method method(gpu, nullptr, options);
  const Regime regimes[] = {Regime::sustained};
  std::vector<ShapeResult> results = method.measure({.group = "tune", .problem = problem}, regimes,
                                                    contenders, "", Clock::time_point::max());
  ShapeResult result = std::move(results.front());
  for (Entry& entry : result.entries) entry.ours = true;
  return result;
}

}  // namespace ptxbuilder::bench
