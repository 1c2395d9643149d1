// Defines chains of adjacent regions, such as, in a loop, the wait of a step right after the products of the
// previous step.
#pragma once

#include "ptxbuilder/tile/profile.h"

namespace ptxbuilder {

namespace detail {
void in_next_region(std::string_view name, const std::function<void()>& body, Where where);
void record_time();
}  // namespace detail

// Each region of a chain begins at the time of the warp's previous event, which is usually the end of the
// previous region in the chain, so a region reads the clock once instead of twice. Code between two regions
// counts towards the second. The first region begins where the chain is created. As with other regions, only
// the bodies are emitted unless the kernel is profiled.
class RegionChain {
 public:
  RegionChain() { detail::record_time(); }

  // Runs `body`, and returns what `body` returns. Throws Error if the name is empty.
  template <std::invocable<> Body>
  auto region(std::string_view name, Body&& body, Where where = Where::here()) -> std::invoke_result_t<Body> {
    return detail::result_within(
        [&](const std::function<void()>& run) { detail::in_next_region(name, run, where); },
        std::forward<Body>(body));
  }
};

}  // namespace ptxbuilder
