// This is how the threads of a CTA that stays learn of its next block of queries.
#pragma once

#include "kernels/attention/work.h"
#include "ptxbuilder/tile/scheduler.h"

namespace ptxbuilder::kernels {

// One thread of a CTA finds its blocks of queries, some rounds ahead of those who need them, and announces
// each in a place of shared memory: where a block is takes several divisions, for which products would
// wait. The last that it announces is beyond all queries.
class WorkQueue {
 public:
  // `readers`: arrivals that hand back a place, of one thread or warp each.
  WorkQueue(Kernel& kernel, int readers);

  // One thread calls it: round by round, it announces what work() gives while has_next() says there is more.
  void announce(const std::function<pred(u32 round)>& has_next,
                const std::function<AttentionWork()>& work) const;
  // Gives what this CTA has in a round, and waits until it is announced. May be asked again until it is done.
  AttentionWork read(const AttentionSizes& sizes, u32 round) const;
  // Hands back a round's place; for the threads that stand for a reader.
  void done(u32 round, pred stands) const;

 private:
  Announcements places_;
};

}  // namespace ptxbuilder::kernels
