// Seeded delays where a kernel's threads deal with each other, so that a GPU runs schedules which it seldom
// takes by itself.
//
//   const JitterScope shaken(seed);
//   Kernel k = my_kernel();
//
// Nothing of it is emitted where no such scope is open.
#pragma once

#include "ptxbuilder/ir/builder.h"

namespace ptxbuilder {

// Kernels that are begun on this thread while it lives sleep up to some microseconds before some of their
// arrivals, barriers, fences, asynchronous copies, and signals in global memory. A warp of a CTA
// sleeps for as long at the same place of its way in each launch of the same seed; the seed changes when, and
// not what the kernel does. A Kernel on a front end's function never sleeps.
class JitterScope {
 public:
  explicit JitterScope(uint64_t seed);
  ~JitterScope();
  JitterScope(const JitterScope&) = delete;
  JitterScope& operator=(const JitterScope&) = delete;

 private:
  std::optional<uint64_t> outer_;
};

namespace detail {

// Has the kernel sleep where a scope is open.
void begin_jitter(Builder& builder);

}  // namespace detail

}  // namespace ptxbuilder
