// Adds seeded delays at points where a kernel's threads interact. The delays provoke schedules that rarely
// occur on a GPU otherwise.
//
//   const JitterScope shaken(seed);
//   Kernel k = my_kernel();
//
// No delays are emitted unless a JitterScope is open.
#pragma once

#include "ptxbuilder/ir/builder.h"

namespace ptxbuilder {

// While a scope exists, kernels that are constructed on this thread sleep for up to a few microseconds before
// some of their arrivals, barriers, fences, asynchronous copies, and signals in global memory. In every
// launch with the same seed, a warp of a CTA sleeps equally long at the same point of its execution. The seed
// changes the timing of the kernel, but not its results. A Kernel on a front end's function never sleeps.
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

// Adds the delays to a kernel if a JitterScope is open.
void begin_jitter(Builder& builder);

}  // namespace detail

}  // namespace ptxbuilder
