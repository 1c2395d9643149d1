// Barriers for some threads of a CTA, which PTX identifies with numbers.
#pragma once

#include "ptxbuilder/ir/builder.h"

namespace ptxbuilder {

// A barrier at which `threads` threads of the CTA meet any number of times (PTX ISA, bar): whole warps of any
// roles. Kernel::named_barrier makes it, and it belongs to that kernel, like a value.
class NamedBarrier {
 public:
  // All threads of a warp call this: it waits until `threads` threads have called sync() or arrive().
  // Afterwards, threads that wait see what these threads did before.
  void sync(Where where = Where::here()) const;
  // Arrives without waiting.
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
