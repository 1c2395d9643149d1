// Sets a time limit for every wait of a kernel, so that a kernel that hangs reports the place of the wait and
// the object for which it waits.
//
//   const Compiled compiled = [&] {
//     const WatchdogScope watched;  // waits of more than a second are reported
//     return compiler.compile(my_kernel());
//   }();
//
// No watchdog code is emitted unless a WatchdogScope is open.
#pragma once

#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder {

// While a scope exists, kernels that are constructed on this thread watch their waits for mbarriers, for
// counters in global memory, and at barriers for threads and for the cluster. Such a kernel has one more
// parameter, "report", and runtime::LoadedKernel passes memory for this parameter. A wait for an mbarrier or
// a counter is reported if it takes longer than the limit, and ends the launch with a trap after twice the
// limit. Waits at barriers for threads and for the cluster have no limit; they are reported when other waits
// end the launch, or when synchronize() gives up. Kernels on a front end's function, and loops that the
// author writes around mbarrier_try_wait, are never watched.
class WatchdogScope {
 public:
  // Throws Error unless the limit is 1 to 2^20 ms.
  explicit WatchdogScope(uint32_t milliseconds = 1000, Where where = Where::here());
  ~WatchdogScope();
  WatchdogScope(const WatchdogScope&) = delete;
  WatchdogScope& operator=(const WatchdogScope&) = delete;

  // Returns the limit of the innermost scope, or 0 if no scope is open.
  static uint32_t milliseconds();

 private:
  uint32_t outer_;
};

namespace detail {

// The condition for which a loop waits: either a phase of an mbarrier has completed, or a counter in global
// memory has reached a value.
struct Awaited {
  std::optional<smem> barrier = {};
  std::optional<gmem> counter = {};
  bool is_wide = false;  // true if the counter has 64 bits
  u32 expected = 1;      // the expected parity, or the expected value of the counter
  std::string_view what = {};
  // Tests without blocking whether the loop has to wait. A profile needs this function if goes_on() blocks,
  // as try_wait does.
  std::function<pred()> has_to_wait = nullptr;
};

// Emits while_(goes_on, body), a loop that waits for other threads.
void wait_while(
    const Awaited& awaited, const std::function<pred()>& goes_on, const std::function<void()>& body = [] {});

// Observes the barrier instructions for threads and for the cluster, and records waits at them.
void watch_barriers(Builder& builder);

}  // namespace detail

}  // namespace ptxbuilder
