// Finds the threads of a CTA for which a condition holds, as far as this can be derived from the operations
// that compute the condition.
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
  bool exact = true;  // true if all threads in `may` enter
  // Set if at most one lane of each warp enters, and the device chooses the lane (PTX ISA, elect.sync).
  bool elected = false;
  // Set if there are device values for which only a part of a warpgroup enters.
  bool may_divide = false;

  static ThreadSet all() { return {.may = Threads().set()}; }
  bool operator==(const ThreadSet&) const = default;
  // Return whether it may happen that only some threads of a warpgroup, or only some lanes of a warp, enter.
  // divides_warps() also returns true if no thread enters.
  bool divides_warpgroups() const;
  bool divides_warps() const;
  // Returns a string such as "only threads 0 to 63 enter" or "only one elected lane of each warp of threads 0
  // to 31 enters".
  std::string describe() const;
};

ThreadSet operator&(const ThreadSet& a, const ThreadSet& b);
ThreadSet operator!(const ThreadSet& a);

// Returns the threads for which an i1 value of the current kernel is true.
ThreadSet threads_where(const llvm::Value* condition);
// Returns whether a value may differ between the threads of a warpgroup.
bool divides_warpgroups(const llvm::Value* value);
// Returns the set of all threads, because any thread may enter a loop's body. may_divide is set if a bound
// may differ between the threads of a warpgroup.
ThreadSet threads_of_loop(const std::vector<const llvm::Value*>& bounds);

}  // namespace ptxbuilder::detail
