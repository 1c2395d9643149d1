// The accesses of one step of an explored schedule, as the observers of its cluster report them.
#pragma once

#include <vector>

#include "runtime/emulator/exploration.h"
#include "runtime/emulator/machine/observer.h"

namespace ptxbuilder::runtime::emulator {

class StepRecord {
 public:
  // Places are words of 16 B: of global memory by address; of shared memory also by the number of the CTA.
  void add_global(Address address, uint32_t bytes, bool writes);
  void add_shared(uint64_t cta, uint32_t offset, uint32_t bytes, bool writes);
  // A place for a warp's asynchronous operations that are not done: it waits for these in groups.
  void add_groups(const Warp& warp, bool writes);
  // Fences of .sc are ordered with all stores, which are not with each other.
  void add_sequential(bool is_fence) { footprint.add(Footprint::anything - 1, is_fence); }
  // The step may change these bytes; changes() says whether it has, once it is done.
  void watch(const std::byte* place, uint32_t bytes);
  bool changes() const;
  void clear();

  Footprint footprint;
  bool is_wait = false;      // for a phase of an mbarrier
  bool stores = false;       // certainly new values
  bool reads_older = false;  // values of global memory, although newer ones were there

 private:
  struct Watched {
    const std::byte* place;
    std::vector<std::byte> before;
  };
  std::vector<Watched> watched_;
};

// Adds the observer that fills the record.
void add_step_record(Cluster& cluster, StepRecord& record);

}  // namespace ptxbuilder::runtime::emulator
