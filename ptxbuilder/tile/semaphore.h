// Defines counters in global memory that CTAs of a grid use to wait for each other.
#pragma once

#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder {

struct SemaphoreSignal;

// A count of signals, in 4 bytes of global memory that are zero before the first launch. A single thread
// calls each function; a barrier then makes the writes that this thread has observed visible to other threads
// (PTX ISA, "Memory Consistency Model", causality order). Threads that wait must run at the same time as
// threads that signal. If CTAs of a grid wait for CTAs that start later, the grid must therefore be launched
// cooperatively (Kernel::cooperative). Otherwise, if another kernel is running, some CTAs may never start,
// even if the grid would fit on the device. With Scope::gpu, signals are visible to threads of this GPU; with
// Scope::sys, they are also visible to other GPUs and the host. For a narrower scope, each function throws
// Error.
class Semaphore {
 public:
  explicit Semaphore(gptr<u32> counter, Scope scope = Scope::gpu) : counter_(counter), scope_(scope) {}

  // Adds `count`. A thread that waits for the signal sees what this thread has written before, and also what
  // other threads had written before they synchronized with this thread at a barrier.
  void signal(u32 count, Where where = Where::here()) const;
  void signal(Where where = Where::here()) const {
    AtLine line(where);
    signal(u32(1));
  }

  // Sets the count to `count`. Only one thread at a time may call set(). A thread that waits for this count
  // sees the same writes as with signal().
  void set(u32 count, Where where = Where::here()) const;

  // Spins until the count is at least `count`, and then subtracts `count`, so that each signal lets only one
  // waiting thread continue.
  void take(u32 count, Where where = Where::here()) const;
  void take(Where where = Where::here()) const {
    AtLine line(where);
    take(u32(1));
  }

  // Spins until the count is at least `count`. Does not change the count, so a signal lets all waiting
  // threads continue.
  void wait(u32 count, Where where = Where::here()) const;

  // Returns the current count.
  u32 read(Where where = Where::here()) const;

 private:
  friend void semaphore_signal_parallel(const std::vector<SemaphoreSignal>&, Where);
  gmem counter_;
  Scope scope_;
};

// A signal that adds `count` to a semaphore, for semaphore_signal_parallel().
struct SemaphoreSignal {
  Semaphore semaphore;
  u32 count = 1;
};

// Sends all signals after a single fence, whose scope is the widest scope of the semaphores. The signals are
// not ordered relative to each other. A thread that has seen one signal sees what this thread wrote before,
// but may not see the other signals yet. Throws Error if there are no signals.
void semaphore_signal_parallel(const std::vector<SemaphoreSignal>& signals, Where where = Where::here());

// A reusable barrier for all CTAs of the grid. All CTAs must run at once, so sync() makes the kernel
// cooperative (Kernel::cooperative). The barrier's counter, 4 bytes of global memory, must be zero before the
// first launch, and only the barrier may change it. Launches that overlap need separate counters.
class GridBarrier {
 public:
  explicit GridBarrier(gptr<u32> counter) : arrived_(counter) {}

  // Waits until all threads of all CTAs have called sync(). Each thread then sees all writes to global memory
  // that any thread made before its own call. Throws Error inside a role.
  void sync(Where where = Where::here()) const;

 private:
  gmem arrived_;
};

}  // namespace ptxbuilder
