// A watchdog for the kernels of operations, for callers that cannot create a scope themselves, such as
// PyTorch.
#pragma once

#include <optional>

#include "ptxbuilder/tile/watchdog.h"

namespace ptxbuilder::kernels {

// During its lifetime, kernels are made with the limit, in milliseconds, that PTXBUILDER_WATCHDOG sets, such
// as 1000 (ptxbuilder/tile/watchdog.h). Without that variable, or in a WatchdogScope, this class does
// nothing.
class WatchedKernels {
 public:
  // Throws Error if the variable does not hold a valid limit.
  WatchedKernels();

 private:
  std::optional<WatchdogScope> scope_;
};

}  // namespace ptxbuilder::kernels
