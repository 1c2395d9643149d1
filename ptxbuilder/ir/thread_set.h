// Which threads of a CTA a condition lets in, as far as the operations say that it is made of.
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
  // For some values of what only the device knows, it lets in a part of a warpgroup.
  bool may_divide = false;

  static ThreadSet all() { return {.may = Threads().set()}; }
  bool operator==(const ThreadSet&) const = default;
  // Whether threads of a warpgroup come in, or may, without the others; and lanes of a warp. In the latter
  // case also, whether nobody does.
  bool divides_warpgroups() const;
  bool divides_warps() const;
  // "only threads 0 to 63 come", "only one elected lane of each warp of threads 0 to 31 comes".
  std::string describe() const;
};

ThreadSet operator&(const ThreadSet& a, const ThreadSet& b);
ThreadSet operator!(const ThreadSet& a);

// Of the threads for which an i1 of the current kernel is true.
ThreadSet threads_where(const llvm::Value* condition);
// Whether threads of a warpgroup may have other values than the rest.
bool divides_warpgroups(const llvm::Value* value);
// Of a loop's body, which each thread enters as often as its bounds say.
ThreadSet threads_of_loop(const std::vector<const llvm::Value*>& bounds);

}  // namespace ptxbuilder::detail
