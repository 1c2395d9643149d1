// Passes the next block of queries to the threads of a CTA that stays.
#pragma once

#include "kernels/attention/work.h"
#include "ptxbuilder/tile/scheduler.h"

namespace ptxbuilder::kernels {

// One thread of a CTA finds its blocks of queries some rounds before they are needed, and announces each one
// in shared memory, because finding a block takes several divisions, for which products would otherwise wait.
// The last block that it announces is after all queries.
class WorkQueue {
 public:
  // `readers` is the number of arrivals that hand back a place; each arrival is that of a thread or of a
  // warp.
  WorkQueue(Kernel& kernel, int readers);

  // Announces, in each round, the result of work() while has_next() returns true. One thread must call this.
  void announce(const std::function<pred(u32 round)>& has_next,
                const std::function<AttentionWork()>& work) const;
  // Returns this CTA's work in a round once it is announced. It may be called again until done() is called.
  AttentionWork read(const AttentionSizes& sizes, u32 round) const;
  // Hands back a round's place. The thread that represents a reader must call it.
  void done(u32 round, pred stands) const;

 private:
  Announcements places_;
};

}  // namespace ptxbuilder::kernels
