// Finds the threads of a CTA that a condition lets in, as far as the operations that it is made of say.
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

  Threads may;        // those that may come in; the others never do
  bool exact = true;  // all of them do
  // One lane of each warp at most does, and only the device knows which (PTX ISA, elect.sync).
  bool elected = false;
  // This is true if it lets in a part of a warpgroup for some values that only the device knows.
  bool may_divide = false;

  static ThreadSet all() { return {.may = Threads().set()}; }
  bool operator==(const ThreadSet&) const = default;
  // These return whether threads of a warpgroup, or lanes of a warp, come in or may come in without the
  // others. The second also returns true if nobody comes in.
  bool divides_warpgroups() const;
  bool divides_warps() const;
  // "only threads 0 to 63 come", "only one elected lane of each warp of threads 0 to 31 comes".
  std::string describe() const;
};

ThreadSet operator&(const ThreadSet& a, const ThreadSet& b);
ThreadSet operator!(const ThreadSet& a);

// Returns the threads for which an i1 of the current kernel is true.
ThreadSet threads_where(const llvm::Value* condition);
// Returns whether threads of a warpgroup may have other values than the rest.
bool divides_warpgroups(const llvm::Value* value);
// Returns the threads of a loop's body, which each thread enters as often as its bounds say.
ThreadSet threads_of_loop(const std::vector<const llvm::Value*>& bounds);

}  // namespace ptxbuilder::detail
