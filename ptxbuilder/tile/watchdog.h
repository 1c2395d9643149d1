// A limit of time for every wait of a kernel, so that one that hangs says where and for what it waits.
//
//   const Compiled compiled = [&] {
//     const WatchdogScope watched;  // waits of more than a second are reported
//     return compiler.compile(my_kernel());
//   }();
//
// Nothing of it is emitted where no such scope is open.
#pragma once

#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder {

// Kernels that are begun on this thread while it lives watch their waits: for mbarriers, for counters in
// global memory, at barriers of threads and of the cluster. Such a kernel has one more parameter, "report",
// which runtime::LoadedKernel passes. A wait for an mbarrier or a counter that takes longer than the limit is
// reported, and after twice the limit it ends the launch by a trap; barriers of threads and of clusters have
// no limit of their own, and are reported when others end the launch or synchronize() gives up. A Kernel on a
// front end's function is never watched, nor a loop of the author's own around mbarrier_try_wait.
class WatchdogScope {
 public:
  // Throws Error unless the limit is 1 to 2^20 ms.
  explicit WatchdogScope(uint32_t milliseconds = 1000, Where where = Where::here());
  ~WatchdogScope();
  WatchdogScope(const WatchdogScope&) = delete;
  WatchdogScope& operator=(const WatchdogScope&) = delete;

  // The limit of the innermost scope; 0 where none is open.
  static uint32_t milliseconds();

 private:
  uint32_t outer_;
};

namespace detail {

// A loop waits for this: a phase of an mbarrier to complete, or a counter in global memory to come to a
// value.
struct Awaited {
  std::optional<smem> barrier = {};
  std::optional<gmem> counter = {};
  bool is_wide = false;  // the counter has 64 bits
  u32 expected = 1;      // the parity, or the value
  std::string_view what = {};
};

// Emits while_(goes_on, body), which waits for what other threads do.
void wait_while(
    const Awaited& awaited, const std::function<pred()>& goes_on, const std::function<void()>& body = [] {});

// Notes barriers of threads and of the cluster, which it sees as instructions.
void watch_barriers(Builder& builder);

}  // namespace detail

}  // namespace ptxbuilder
