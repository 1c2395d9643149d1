// A time limit for every wait of a kernel, so that a kernel that hangs reports where it waits and for what.
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

// Kernels begun on this thread while a scope lives watch their waits: for mbarriers, for counters in global
// memory, at barriers of threads and of the cluster. Such a kernel has one more parameter, "report", which
// runtime::LoadedKernel passes. A wait for an mbarrier or a counter that takes longer than the limit is
// reported, and after twice the limit it ends the launch with a trap; barriers of threads and of clusters do
// not have a limit, and are reported when other waits end the launch or synchronize() gives up. A Kernel on a
// front end's function is never watched, nor is an author's own loop around mbarrier_try_wait.
class WatchdogScope {
 public:
  // Throws Error unless the limit is 1 to 2^20 ms.
  explicit WatchdogScope(uint32_t milliseconds = 1000, Where where = Where::here());
  ~WatchdogScope();
  WatchdogScope(const WatchdogScope&) = delete;
  WatchdogScope& operator=(const WatchdogScope&) = delete;

  // Returns the limit of the innermost scope; 0 if no scope is open.
  static uint32_t milliseconds();

 private:
  uint32_t outer_;
};

namespace detail {

// A loop waits for one of these: the completion of a phase of an mbarrier, or a counter in global memory that
// reaches a value.
struct Awaited {
  std::optional<smem> barrier = {};
  std::optional<gmem> counter = {};
  bool is_wide = false;  // the counter has 64 bits
  u32 expected = 1;      // the parity, or the value
  std::string_view what = {};
  // This tests, without blocking, whether the wait has to wait. A profile needs it if goes_on() blocks, as
  // try_wait does.
  std::function<pred()> has_to_wait = nullptr;
};

// Emits while_(goes_on, body), which waits for other threads.
void wait_while(
    const Awaited& awaited, const std::function<pred()>& goes_on, const std::function<void()>& body = [] {});

// Records waits at barriers of threads and of the cluster, whose instructions it observes.
void watch_barriers(Builder& builder);

}  // namespace detail

}  // namespace ptxbuilder
