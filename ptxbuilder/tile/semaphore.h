// Counters in global memory with which CTAs of a grid wait for each other.
#pragma once

#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder {

struct SemaphoreSignal;

// A count of signals, in 4 bytes of global memory that are zero before the first launch. Each function is
// called by a single thread; a barrier then makes what that thread has seen visible to other threads (PTX
// ISA, "Memory Consistency Model", causality order). Threads that wait must run at the same time as those
// that signal. A grid whose CTAs wait for CTAs that begin later must therefore be launched cooperatively
// (Kernel::cooperative): while another kernel is running, CTAs may never begin even if the grid would fit. At
// Scope::gpu, threads of this GPU see the signals; at Scope::sys, threads of other GPUs and the host do too;
// each function throws Error for a narrower scope.
class Semaphore {
 public:
  explicit Semaphore(gptr<u32> counter, Scope scope = Scope::gpu) : counter_(counter), scope_(scope) {}

  // Adds `count`. A thread that waits for the signal sees what this thread has written, and also what threads
  // that met this thread at a barrier had written before.
  void signal(u32 count, Where where = Where::here()) const;
  void signal(Where where = Where::here()) const {
    AtLine line(where);
    signal(u32(1));
  }

  // Sets the count to a number. Only one thread at a time may signal in this way. A thread that waits for the
  // number sees the same writes as with signal().
  void set(u32 count, Where where = Where::here()) const;

  // Spins until the count is at least `count`, and then subtracts `count`, so each signal lets only one
  // waiting thread continue.
  void take(u32 count, Where where = Where::here()) const;
  void take(Where where = Where::here()) const {
    AtLine line(where);
    take(u32(1));
  }

  // Spins until the count is at least `count`, without changing it, so a signal lets all waiting threads
  // continue.
  void wait(u32 count, Where where = Where::here()) const;

  // Returns the current count.
  u32 read(Where where = Where::here()) const;

 private:
  friend void semaphore_signal_parallel(const std::vector<SemaphoreSignal>&, Where);
  gmem counter_;
  Scope scope_;
};

// One of several signals; adds `count` to a semaphore.
struct SemaphoreSignal {
  Semaphore semaphore;
  u32 count = 1;
};

// Sends all signals after a single fence, which has the widest of their scopes. The signals are not ordered
// among each other: a thread that has seen one of them sees what this thread wrote before, but may not see
// the other signals yet. Throws Error if there are no signals.
void semaphore_signal_parallel(const std::vector<SemaphoreSignal>& signals, Where where = Where::here());

// A barrier for all CTAs of the grid, which can be used any number of times. All CTAs must run at once, so
// sync() makes the kernel cooperative (Kernel::cooperative). Its counter, 4 bytes of global memory, must be
// zero before the first launch, and only the barrier may change it; launches that overlap need separate
// counters.
class GridBarrier {
 public:
  explicit GridBarrier(gptr<u32> counter) : arrived_(counter) {}

  // All threads of all CTAs call this. Afterwards, all of them see what any of them wrote to global memory
  // before. Throws Error inside a role.
  void sync(Where where = Where::here()) const;

 private:
  gmem arrived_;
};

}  // namespace ptxbuilder
