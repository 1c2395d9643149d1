#include "kernels/tune/tune.h"

#include <algorithm>

#include "kernels/tune/our_products.h"

namespace ptxbuilder::bench {

Contenders product_tiles(const Gpu& gpu, int top, OurOptions ours) {
  ours.candidates = top;
  Contenders contenders = our_products(gpu, ours);
  std::erase_if(contenders, [&](const auto& c) {
    return c != contenders.front() && !c->name().starts_with("candidate ") &&
           std::find(ours.tiles.begin(), ours.tiles.end(), c->name()) == ours.tiles.end();
  });
  return contenders;
}

ShapeResult tune(Method& method, const Problem& problem, const Contenders& contenders) {
  for (const auto& contender : contenders) contender->announce(problem);
  const Regime regimes[] = {Regime::sustained};
  std::vector<ShapeResult> results = method.measure({.group = "tune", .problem = problem}, regimes,
                                                    contenders, "", Clock::time_point::max());
  ShapeResult result = std::move(results.front());
  for (Entry& entry : result.entries) entry.ours = true;
  return result;
}

}  // namespace ptxbuilder::bench
