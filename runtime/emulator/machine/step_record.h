// This is what one step of an explored schedule touches, as the observers of its cluster tell it.
#pragma once

#include <vector>

#include "runtime/emulator/exploration.h"
#include "runtime/emulator/machine/observer.h"

namespace ptxbuilder::runtime::emulator {

class StepRecord {
 public:
  // Places are words of 16 B: of global memory by their address, of a CTA's shared memory by its number too.
  void add_global(Address address, uint32_t bytes, bool writes);
  void add_shared(uint64_t cta, uint32_t offset, uint32_t bytes, bool writes);
  // A warp waits for these by groups: its asynchronous operations that are not done.
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
  bool reads_older = false;  // values of global memory, where a newer one was there

 private:
  struct Watched {
    const std::byte* place;
    std::vector<std::byte> before;
  };
  std::vector<Watched> watched_;
};

// Adds the observer that tells the record.
void add_step_record(Cluster& cluster, StepRecord& record);

}  // namespace ptxbuilder::runtime::emulator
