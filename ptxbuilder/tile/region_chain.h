// Adjacent regions of a loop, such as the wait of a step after the products of the previous step.
#pragma once

#include "ptxbuilder/tile/profile.h"

namespace ptxbuilder {

namespace detail {
void in_next_region(std::string_view name, const std::function<void()>& body, Where where);
void record_time();
}  // namespace detail

// Each region of a chain begins at the time of the warp's previous event, usually the end of the chain's last
// region, so that it reads the clock once instead of twice. Code between two regions counts as part of the
// second. The first region begins where the chain is made. Like other regions, these emit only their body
// unless the kernel is profiled.
class RegionChain {
 public:
  RegionChain() { detail::record_time(); }

  // Runs `body`, and returns what it returns. Throws Error when the name is empty.
  template <std::invocable<> Body>
  auto region(std::string_view name, Body&& body, Where where = Where::here()) -> std::invoke_result_t<Body> {
    return detail::result_within(
        [&](const std::function<void()>& run) { detail::in_next_region(name, run, where); },
        std::forward<Body>(body));
  }
};

}  // namespace ptxbuilder
