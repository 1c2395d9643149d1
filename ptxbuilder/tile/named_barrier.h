// Barriers of some threads of a CTA, by the numbers that PTX gives them.
#pragma once

#include "ptxbuilder/ir/builder.h"

namespace ptxbuilder {

// Where `threads` threads of the CTA meet, as often as they like (PTX ISA, bar): those of some warps, which
// may be in different roles. Made by Kernel::named_barrier, and like a value of that kernel.
class NamedBarrier {
 public:
  // All threads of a warp call this: it waits until as many as meet here have come, by sync() or arrive().
  // What they did before is seen by those that wait.
  void sync(Where where = Where::here()) const;
  // Comes without waiting.
  void arrive(Where where = Where::here()) const;

  int threads() const { return threads_; }

 private:
  friend class Kernel;
  NamedBarrier(Builder& builder, int threads, Where where);
  void emit(const isa::Row& row) const;

  const Builder::State* owner_;  // the kernel's
  int id_, threads_;
};

}  // namespace ptxbuilder
