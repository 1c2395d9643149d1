// Clusters of a launch order each other through words of global memory: this holds what releases pass on
// there, by the scopes of both sides (PTX ISA, "Memory Consistency Model").
#pragma once

#include <mutex>
#include <unordered_map>
#include <vector>

#include "runtime/emulator/machine/clock.h"
#include "runtime/emulator/machine/program.h"

namespace ptxbuilder::runtime::emulator {

// Who accesses: a thread of a CTA of a cluster, each of the launch.
struct Party {
  uint64_t cluster, cta;
};

class GlobalMemoryOrder {
 public:
  // A release of `scope` to the word at an address: whoever acquires there knows `k`.
  void release(uint64_t address, const Party& who, Scope scope, const Knowledge& k);

  // Adds to `k` what an acquire of `scope` at that word gives.
  void acquire(uint64_t address, const Party& who, Scope scope, Knowledge& k);

 private:
  // Releases of one CTA with one scope have passed this on.
  struct Passed {
    Party by;
    Scope scope;
    Knowledge knowledge;
  };
  struct Word {
    std::vector<Passed> passed;
    // Releases of the GPU's scope have passed this on, to other clusters.
    GlobalKnowledge::Pointer to_all;
  };

  std::mutex mutex_;
  std::unordered_map<uint64_t, Word> words_;  // by address / 4
};

}  // namespace ptxbuilder::runtime::emulator
