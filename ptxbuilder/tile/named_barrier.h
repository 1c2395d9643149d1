// Defines barriers for some threads of a CTA, which PTX identifies with numbers.
#pragma once

#include "ptxbuilder/ir/builder.h"

namespace ptxbuilder {

// A barrier at which `threads` threads of the CTA, in whole warps of any roles, meet any number of times (PTX
// ISA, bar). Kernel::named_barrier makes it; it can be used only in that kernel.
class NamedBarrier {
 public:
  // All threads of a warp call this. It waits until `threads` threads have called sync() or arrive(), and the
  // caller then sees what these threads did before.
  void sync(Where where = Where::here()) const;
  // Arrives without waiting.
  void arrive(Where where = Where::here()) const;

  int threads() const { return threads_; }

 private:
  friend class Kernel;
  NamedBarrier(Builder& builder, int threads, Where where);
  void emit(const isa::Row& row) const;

  const Builder::State* owner_;  // state of the kernel that owns the barrier
  int id_, threads_;
};

}  // namespace ptxbuilder
