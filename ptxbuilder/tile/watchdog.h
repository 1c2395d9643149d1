// Sets a time limit for every wait of a kernel, so that a kernel that hangs reports where it waits, and for
// what.
//
//   const Compiled compiled = [&] {
//     const WatchdogScope watched;  // waits of more than a second are reported
//     return compiler.compile(my_kernel());
//   }();
//
// No watchdog code is emitted unless such a scope is open.
#pragma once

#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder {

// While a scope exists, kernels begun on this thread watch their waits: for mbarriers, for counters in global
// memory, and at barriers of threads and of the cluster. Such a kernel has one more parameter, "report",
// which runtime::LoadedKernel passes. A wait for an mbarrier or a counter that takes longer than the limit is
// reported, and after twice the limit it ends the launch with a trap. Waits at barriers of threads and of
// clusters have no limit; they are reported when other waits end the launch, or when synchronize() gives up.
// A Kernel on a front end's function is never watched; neither is a loop around mbarrier_try_wait that the
// author writes.
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

// The condition for which a loop waits: a phase of an mbarrier has completed, or a counter in global memory
// has reached a value.
struct Awaited {
  std::optional<smem> barrier = {};
  std::optional<gmem> counter = {};
  bool is_wide = false;  // whether the counter has 64 bits
  u32 expected = 1;      // the parity, or the counter's value
  std::string_view what = {};
  // Tests, without blocking, whether the loop has to wait. A profile needs this if goes_on() blocks, as
  // try_wait does.
  std::function<pred()> has_to_wait = nullptr;
};

// Emits while_(goes_on, body), a loop that waits for other threads.
void wait_while(
    const Awaited& awaited, const std::function<pred()>& goes_on, const std::function<void()>& body = [] {});

// Observes barrier instructions of threads and of the cluster, and records waits at them.
void watch_barriers(Builder& builder);

}  // namespace detail

}  // namespace ptxbuilder
