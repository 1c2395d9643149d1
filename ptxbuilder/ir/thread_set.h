// Finds the threads of a CTA for which a condition holds, as far as its operations determine them.
#pragma once

#include <bitset>
#include <string>
#include <vector>

#include "ptxbuilder/isa/hopper.h"

namespace llvm {
class Value;
}

namespace ptxbuilder::detail {

struct ThreadSet {
  using Threads = std::bitset<hopper::cta_threads>;

  Threads may;        // threads that may enter; the others never enter
  bool exact = true;  // whether all threads of `may` enter
  // At most one lane of each warp enters, and only the device knows which one (PTX ISA, elect.sync).
  bool elected = false;
  // Set if only a part of a warpgroup enters for some of the values that are known only on the device.
  bool may_divide = false;

  static ThreadSet all() { return {.may = Threads().set()}; }
  bool operator==(const ThreadSet&) const = default;
  // Return whether it is possible that only some threads of a warpgroup, or only some lanes of a warp, enter.
  // divides_warps() also returns true if no thread enters.
  bool divides_warpgroups() const;
  bool divides_warps() const;
  // Returns a text such as "only threads 0 to 63 enter" or "only one elected lane of each warp of threads 0
  // to 31 enters".
  std::string describe() const;
};

ThreadSet operator&(const ThreadSet& a, const ThreadSet& b);
ThreadSet operator!(const ThreadSet& a);

// Returns the threads for which an i1 value of the current kernel is true.
ThreadSet threads_where(const llvm::Value* condition);
// Returns whether a value may differ between the threads of a warpgroup.
bool divides_warpgroups(const llvm::Value* value);
// Returns the threads that may enter a loop's body: all threads. may_divide is set if a bound may differ
// between the threads of a warpgroup.
ThreadSet threads_of_loop(const std::vector<const llvm::Value*>& bounds);

}  // namespace ptxbuilder::detail
