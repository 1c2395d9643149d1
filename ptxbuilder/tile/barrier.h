// mbarriers in shared memory: made once by one thread, waited for by parity.
#pragma once

#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder {

// Barriers in a row; a phase of the i-th completes after `arrivals[i]` arrivals and all expected bytes (PTX
// ISA, mbarrier). Initialised here; sync_threads() or the first role publishes them.
class Barriers {
 public:
  // Reports call them by `names`, each of which is for an equal share of them: {"full", "empty"}.
  Barriers(Kernel& kernel, const std::vector<int>& arrivals,
           const std::vector<std::string>& names = {"barrier"}, Where where = Where::here());

  // The address of one, by a host or device index.
  smem operator[](u32 index) const;
  int size() const { return count_; }

 private:
  int count_;
  uint32_t offset_ = 0;
};

// Spins until the phase of `parity` (0 for the first) has completed.
void barrier_wait(smem barrier, u32 parity, Where where = Where::here());

}  // namespace ptxbuilder
