// How CTAs that stay share blocks of queries whose number and order the device alone knows.
#pragma once

#include "kernels/attention/work.h"
#include "ptxbuilder/tile/barrier.h"
#include "ptxbuilder/tile/shared_tile.h"

namespace ptxbuilder::kernels {

// One thread of a CTA takes blocks from the counter of an AttentionOrder, some ahead of those who need them,
// and announces each in a place of shared memory; the last it announces has no queries.
class WorkQueue {
 public:
  // `readers`: arrivals that hand back a place, of one thread or warp each.
  WorkQueue(Kernel& kernel, int readers);

  // For one thread: announces until all blocks are taken. `rows` of a block.
  void announce(const AttentionSizes& sizes, int rows) const;
  // What this CTA has in a round; waits until it is announced. May be asked again until it is done.
  AttentionWork read(const AttentionSizes& sizes, u32 round) const;
  // Hands back a round's place; for the threads that stand for a reader.
  void done(u32 round, pred stands) const;

 private:
  static constexpr int kPlaces = 4, kNumbers = 8;

  sptr<u32> place(u32 round) const;

  SharedTile places_;
  Barriers announced_, read_;
};

}  // namespace ptxbuilder::kernels
