// Counters in global memory with which CTAs of a grid wait for each other.
#pragma once

#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder {

struct SemaphoreSignal;

// A count of signals, in 4 bytes of global memory that are zero before the first launch. A single thread
// calls each function; a barrier of threads then makes visible to the others what the calling thread has seen
// (PTX ISA, "Memory Consistency Model", causality order). Threads that wait must run at the same time as
// those that signal: a grid whose CTAs wait for CTAs that begin later must be launched cooperatively
// (Kernel::cooperative), since next to another kernel, even a grid that fits may have CTAs that never begin.
// At Scope::gpu the threads of this GPU see the signals, at Scope::sys also those of other GPUs and the host;
// each function throws Error for a narrower scope.
class Semaphore {
 public:
  explicit Semaphore(gptr<u32> counter, Scope scope = Scope::gpu) : counter_(counter), scope_(scope) {}

  // Adds `count`. A thread that waits for the signal sees what this thread has written, and what threads that
  // met this thread at a barrier before have written.
  void signal(u32 count, Where where = Where::here()) const;
  void signal(Where where = Where::here()) const {
    AtLine line(where);
    signal(u32(1));
  }

  // Sets the count to a number; only one thread at a time may signal this way. A thread that waits for it
  // sees the same writes as with signal().
  void set(u32 count, Where where = Where::here()) const;

  // Spins until the count is at least `count`, then subtracts `count`, so that each signal
  // serves one thread that waits.
  void take(u32 count, Where where = Where::here()) const;
  void take(Where where = Where::here()) const {
    AtLine line(where);
    take(u32(1));
  }

  // Spins until the count is at least `count`, and does not change it, so that a signal serves all threads
  // that wait.
  void wait(u32 count, Where where = Where::here()) const;

  // Returns the current count.
  u32 read(Where where = Where::here()) const;

 private:
  friend void semaphore_signal_parallel(const std::vector<SemaphoreSignal>&, Where);
  gmem counter_;
  Scope scope_;
};

// One of several signals, which adds `count` to a semaphore.
struct SemaphoreSignal {
  Semaphore semaphore;
  u32 count = 1;
};

// Sends all signals after one fence, of the widest of their scopes. The signals are not ordered among each
// other: a thread that has seen one of them sees what this thread wrote before, but may not see the other
// signals. Throws Error if there are no signals.
void semaphore_signal_parallel(const std::vector<SemaphoreSignal>& signals, Where where = Where::here());

// A barrier for all CTAs of the grid, which can be used any number of times. All CTAs must run at once, so
// sync() makes the kernel cooperative (Kernel::cooperative). Its counter, 4 bytes of global memory, must be
// zero before the first launch, and only the barrier may change it; launches that overlap need separate
// counters.
class GridBarrier {
 public:
  explicit GridBarrier(gptr<u32> counter) : arrived_(counter) {}

  // All threads of all CTAs call it. Afterwards they all see what any of them wrote to global memory
  // before. Throws Error inside a role.
  void sync(Where where = Where::here()) const;

 private:
  gmem arrived_;
};

}  // namespace ptxbuilder
