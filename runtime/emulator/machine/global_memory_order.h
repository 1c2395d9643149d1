// Clusters of a launch order each other through words of global memory: this class holds what releases pass
// on there, by the scopes of both sides (PTX ISA, "Memory Consistency Model").
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "runtime/emulator/machine/clock.h"
#include "runtime/emulator/machine/program.h"

namespace ptxbuilder::runtime::emulator {

// The thread that accesses: its CTA, cluster and device. CTAs and clusters are numbered among those of all
// launches that run at once.
struct Party {
  uint64_t cluster, cta;
  uint32_t device;
};

// The knowledge that releases to one word have passed on; null means nothing.
struct PassedOn;
using PassedOnPointer = std::shared_ptr<const PassedOn>;

// The first adds to what is passed on; the second adds to `k` what an acquire of `scope` gets.
void release(PassedOnPointer& passed, const Party& who, Scope scope, const Knowledge& k);
void acquire(const PassedOn& passed, const Party& who, Scope scope, Knowledge& k);

class GlobalMemoryOrder {
 public:
  // A release of `scope` to the word at an address: a thread that acquires there knows `k`.
  void release(uint64_t address, const Party& who, Scope scope, const Knowledge& k);

  // Returns what the value of the word at an address passes on.
  PassedOnPointer passed(uint64_t address) const;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, PassedOnPointer> words_;  // by address / 4
};

}  // namespace ptxbuilder::runtime::emulator
