// Launches of several ranks tell each other this through memory that all of them reach.
#pragma once

#include "ptxbuilder/tile/semaphore.h"

namespace ptxbuilder::kernels {

// The memory of each rank begins with words of four bytes, which are zeros before its first call: how many
// calls it has done, how many CTAs have left the one that runs, the call for which the next rank's memory is
// free, and for each block the call in which its data came.
inline constexpr uint32_t kExchangeBytes = 256 * 1024;

// A ring of ranks, each of which sends to the next. All ranks make the same calls in the same order. A call
// has a number, from 1 on, which the device counts, so that a recorded launch may be repeated.
class Exchange {
 public:
  // Each thread of the CTA makes it, outside of roles: the number is what it is before any CTA leaves.
  // `own`, `next` and `previous` are the words of this rank and of its neighbours.
  Exchange(gptr<u32> own, gptr<u32> next, gptr<u32> previous);

  static constexpr uint32_t most_blocks() { return kExchangeBytes / 4 - kBlocks; }

  // These are for one thread of each CTA. open() says that the memory of this rank is free for the one before
  // it, which what this rank did before it no longer reads; left() says that the CTA waits for nothing more.
  void open() const;
  void left() const;
  // Waits until the next rank's memory is free.
  void wait_for_next() const;

  // Says that this thread's data of a block has come to the next rank, or waits for that of the one before.
  // What thread and copies it knows of have stored is seen by who has waited.
  void signal(u32 block) const;
  void wait(u32 block) const;

 private:
  static constexpr uint32_t kCalls = 0, kLeft = 1, kFree = 32, kBlocks = 64;  // words

  gptr<u32> own_, next_, previous_;
  u32 call_;
};

}  // namespace ptxbuilder::kernels
