// Clusters of a launch order each other through words of global memory: this holds what releases pass on
// there, by the scopes of both sides (PTX ISA, "Memory Consistency Model").
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "runtime/emulator/machine/clock.h"
#include "runtime/emulator/machine/program.h"

namespace ptxbuilder::runtime::emulator {

// The one that accesses: a thread of a CTA of a cluster, which have numbers among those of all launches that
// run at once, of a device.
struct Party {
  uint64_t cluster, cta;
  uint32_t device;
};

// This is what releases to one word have passed on; null is nothing.
struct PassedOn;
using PassedOnPointer = std::shared_ptr<const PassedOn>;

// Both add to what is passed on, or to `k` what it gives to an acquire of `scope`.
void release(PassedOnPointer& passed, const Party& who, Scope scope, const Knowledge& k);
void acquire(const PassedOn& passed, const Party& who, Scope scope, Knowledge& k);

class GlobalMemoryOrder {
 public:
  // A release of `scope` to the word at an address: whoever acquires there knows `k`.
  void release(uint64_t address, const Party& who, Scope scope, const Knowledge& k);

  // The value of the word at an address passes this on.
  PassedOnPointer passed(uint64_t address) const;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, PassedOnPointer> words_;  // by address / 4
};

}  // namespace ptxbuilder::runtime::emulator
