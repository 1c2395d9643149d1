// Counters in global memory by which CTAs of a grid wait for each other.
#pragma once

#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder {

// Whose signals are seen: the threads of this GPU, or those of other GPUs and the host too.
enum class Scope : uint8_t { gpu, sys };

// A count of signals, in 4 bytes of global memory that are zero before the first launch. One thread calls
// each function, for itself; a barrier of threads passes on what it knows (PTX ISA, "Memory Consistency
// Model", causality order). Whoever waits has to run at the same time as who signals: a grid of no more CTAs
// than fit.
class Semaphore {
 public:
  explicit Semaphore(gptr<u32> counter, Scope scope = Scope::gpu) : counter_(counter), scope_(scope) {}

  // Adds `count`. What the thread has written before, and those that met it at a barrier, is seen by whoever
  // waits for that.
  void signal(u32 count, Where where = Where::here()) const;
  void signal(Where where = Where::here()) const {
    AtLine line(where);
    signal(u32(1));
  }

  // Spins until the count is at least `count`, and takes that off: each signal is for one that waits.
  void take(u32 count, Where where = Where::here()) const;
  void take(Where where = Where::here()) const {
    AtLine line(where);
    take(u32(1));
  }

  // Spins until the count is at least `count`, and leaves it, for all that wait.
  void wait(u32 count, Where where = Where::here()) const;

  // The count as it is.
  u32 read(Where where = Where::here()) const;

 private:
  gmem counter_;
  Scope scope_;
};

// Where all CTAs of the grid meet, as often as they like. All of them have to run at once. Its memory is the
// module's: two launches of one loaded kernel may not overlap.
class GridBarrier {
 public:
  explicit GridBarrier(Kernel& kernel);

  // For all threads of all CTAs: what they have written to global memory before, all see after. Throws Error
  // inside a role.
  void sync(Where where = Where::here()) const;

 private:
  gmem arrived_;
};

}  // namespace ptxbuilder
