// Clusters of a launch order each other through words of global memory. GlobalMemoryOrder stores what
// releases to these words have passed on, by the scopes of both sides (PTX ISA, "Memory Consistency Model").
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "runtime/emulator/machine/clock.h"
#include "runtime/emulator/machine/program.h"

namespace ptxbuilder::runtime::emulator {

// The CTA, cluster and device of a thread that accesses memory. CTAs and clusters are numbered across all
// launches that run at once.
struct Party {
  uint64_t cluster, cta;
  uint32_t device;
};

// The knowledge that releases to one word have passed on. A null pointer represents no knowledge.
struct PassedOn;
using PassedOnPointer = std::shared_ptr<const PassedOn>;

// release() adds `k` to what is passed on. acquire() adds to `k` what an acquire with `scope` learns.
void release(PassedOnPointer& passed, const Party& who, Scope scope, const Knowledge& k);
void acquire(const PassedOn& passed, const Party& who, Scope scope, Knowledge& k);

class GlobalMemoryOrder {
 public:
  // Records that a thread with knowledge `k` has released the word at an address with `scope`.
  void release(uint64_t address, const Party& who, Scope scope, const Knowledge& k);

  // Returns what the current value of the word at an address passes on.
  PassedOnPointer passed(uint64_t address) const;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, PassedOnPointer> words_;  // indexed by address / 4
};

}  // namespace ptxbuilder::runtime::emulator
