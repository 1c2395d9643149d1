// The accesses of one step of an explored schedule, as the observer of its cluster records them.
#pragma once

#include <vector>

#include "runtime/emulator/exploration.h"
#include "runtime/emulator/machine/observer.h"

namespace ptxbuilder::runtime::emulator {

class StepRecord {
 public:
  // These add the places of an access. A place is a word of 16 B, identified by its address in global memory,
  // or by the number of its CTA and its offset in shared memory.
  void add_global(Address address, uint32_t bytes, bool writes);
  void add_shared(uint64_t cta, uint32_t offset, uint32_t bytes, bool writes);
  // Adds a place that represents the warp's unfinished asynchronous operations, for which the warp waits in
  // groups.
  void add_groups(const Warp& warp, bool writes);
  // Makes .sc fences clash with all stores. Stores do not clash with each other through the place that this
  // adds.
  void add_sequential(bool is_fence) { footprint.add(Footprint::anything - 1, is_fence); }
  // watch() records bytes that the step may change. changes() returns, after the step, whether any of them
  // changed.
  void watch(const std::byte* place, uint32_t bytes);
  bool changes() const;
  void clear();

  Footprint footprint;
  bool is_wait = false;      // whether the step waits for a phase of an mbarrier
  bool stores = false;       // whether the step certainly stores new values
  bool reads_older = false;  // whether the step read a value of global memory although a newer one existed

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
