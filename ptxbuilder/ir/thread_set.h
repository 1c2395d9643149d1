// Finds the threads of a CTA for which a condition holds, as far as its operations reveal them.
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

  Threads may;        // threads that may enter; the others never do
  bool exact = true;  // whether all threads of `may` enter
  // At most one lane of each warp enters, and only the device knows which one (PTX ISA, elect.sync).
  bool elected = false;
  // For some values that only the device knows, only part of a warpgroup enters.
  bool may_divide = false;

  static ThreadSet all() { return {.may = Threads().set()}; }
  bool operator==(const ThreadSet&) const = default;
  // Return whether threads of a warpgroup, or lanes of a warp, enter or may enter without the others.
  // divides_warps() also returns true if no thread enters.
  bool divides_warpgroups() const;
  bool divides_warps() const;
  // Returns "only threads 0 to 63 enter", "only one elected lane of each warp of threads 0 to 31 enters".
  std::string describe() const;
};

ThreadSet operator&(const ThreadSet& a, const ThreadSet& b);
ThreadSet operator!(const ThreadSet& a);

// Returns the threads for which an i1 value of the current kernel is true.
ThreadSet threads_where(const llvm::Value* condition);
// Returns whether a value may differ between the threads of a warpgroup.
bool divides_warpgroups(const llvm::Value* value);
// Returns the threads that enter a loop's body; each thread iterates as often as its own bounds state.
ThreadSet threads_of_loop(const std::vector<const llvm::Value*>& bounds);

}  // namespace ptxbuilder::detail
