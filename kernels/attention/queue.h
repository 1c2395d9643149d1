// Passes blocks of queries to the threads of a persistent CTA.
#pragma once

#include "kernels/attention/work.h"
#include "ptxbuilder/tile/scheduler.h"

namespace ptxbuilder::kernels {

// Finding a block takes several divisions, and products would have to wait for them. Therefore one thread of
// a CTA finds the blocks of queries several rounds in advance, and announces each block in shared memory. The
// last block that it announces is beyond all queries and marks the end.
class WorkQueue {
 public:
  // `readers` is the number of threads or warps that read each announcement and confirm it with done().
  WorkQueue(Kernel& kernel, int readers);

  // Calls work() and announces the result, once per round, as long as has_next() returns true. One thread
  // must call this function.
  void announce(const std::function<pred(u32 round)>& has_next,
                const std::function<AttentionWork()>& work) const;
  // Waits for the announcement of a round, and returns the CTA's work in this round. May be called repeatedly
  // before done().
  AttentionWork read(const AttentionSizes& sizes, u32 round) const;
  // Confirms that a reader has read a round's announcement, so that its memory may be reused. All threads of
  // the reader may call this function; only threads for which `stands` is true confirm.
  void done(u32 round, pred stands) const;

 private:
  Announcements places_;
};

}  // namespace ptxbuilder::kernels
