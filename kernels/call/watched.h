// A watchdog for the kernels of operations, for callers that cannot open a scope themselves, such as PyTorch.
#pragma once

#include <optional>

#include "ptxbuilder/tile/watchdog.h"

namespace ptxbuilder::kernels {

// Kernels that are made during its lifetime have the limit in milliseconds that PTXBUILDER_WATCHDOG sets,
// such as 1000 (ptxbuilder/tile/watchdog.h); without that variable, or in a WatchdogScope, it does nothing.
class WatchedKernels {
 public:
  // Throws Error for a value that is not a valid limit.
  WatchedKernels();

 private:
  std::optional<WatchdogScope> scope_;
};

}  // namespace ptxbuilder::kernels
