// Which threads of a CTA a condition lets in, as far as its own operations say.
#pragma once

#include <bitset>
#include <string>

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

  static ThreadSet all() { return {.may = Threads().set()}; }
  // Whether a warpgroup has threads that may come in, and others that never do.
  bool divides_warpgroups() const;
  bool operator==(const ThreadSet&) const = default;
  // "threads 0 to 63 come", "one elected lane of each warp of threads 0 to 31 comes".
  std::string describe() const;
};

ThreadSet operator&(const ThreadSet& a, const ThreadSet& b);
ThreadSet operator!(const ThreadSet& a);

// Of the threads for which an i1 is true. What depends on more than the thread's number may be any.
ThreadSet threads_where(const llvm::Value* condition);

}  // namespace ptxbuilder::detail
