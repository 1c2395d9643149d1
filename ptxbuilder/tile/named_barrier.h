// Defines barriers for some of a CTA's threads. PTX identifies these barriers by number.
#pragma once

#include "ptxbuilder/ir/builder.h"

namespace ptxbuilder {

// A barrier at which `threads` threads of the CTA meet, any number of times (PTX ISA, bar). The threads form
// complete warps, which may be in different roles. Kernel::named_barrier() makes the barrier, and only that
// kernel can use it.
class NamedBarrier {
 public:
  // Waits until `threads` threads have called sync() or arrive(). The caller then sees the memory writes that
  // these threads made before their calls. All threads of a warp must call this function.
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
