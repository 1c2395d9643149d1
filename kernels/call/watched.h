// Sets a watchdog for the kernels of operations, for callers such as PyTorch that cannot create a
// WatchdogScope themselves.
#pragma once

#include <optional>

#include "ptxbuilder/tile/watchdog.h"

namespace ptxbuilder::kernels {

// While an object of this class exists, kernels are built with the time limit in milliseconds that the
// environment variable PTXBUILDER_WATCHDOG sets, such as 1000 (ptxbuilder/tile/watchdog.h). If the variable
// is not set, or inside a WatchdogScope, the object has no effect.
class WatchedKernels {
 public:
  // Throws Error if PTXBUILDER_WATCHDOG does not hold a valid limit.
  WatchedKernels();

 private:
  std::optional<WatchdogScope> scope_;
};

}  // namespace ptxbuilder::kernels
