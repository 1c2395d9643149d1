// Defines chains of adjacent regions. In a loop, for example, a step's wait can directly follow the products
// of the previous step.
#pragma once

#include "ptxbuilder/tile/profile.h"

namespace ptxbuilder {

namespace detail {
void in_next_region(std::string_view name, const std::function<void()>& body, Where where);
void record_time();
}  // namespace detail

// A chain of regions. Each region begins at the time of the warp's previous event, usually the end of the
// previous region in the chain. A region thus reads the clock once instead of twice. The time between two
// regions counts towards the second. The first region begins when the chain is created. As with other
// regions, only the bodies are emitted if the kernel is not profiled.
class RegionChain {
 public:
  RegionChain() { detail::record_time(); }

  // Runs `body` as the next region of the chain, and returns the result of `body`. Throws Error if the name
  // is empty.
  template <std::invocable<> Body>
  auto region(std::string_view name, Body&& body, Where where = Where::here()) -> std::invoke_result_t<Body> {
    return detail::result_within(
        [&](const std::function<void()>& run) { detail::in_next_region(name, run, where); },
        std::forward<Body>(body));
  }
};

}  // namespace ptxbuilder
