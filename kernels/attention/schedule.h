// The schedule says which queries a CTA takes, and when.
#pragma once

#include <functional>

#include "kernels/attention/queue.h"

namespace ptxbuilder::kernels {

// A CTA takes one block of queries, or one after the other if CTAs stay. The blocks of a head are neighbours,
// so that CTAs share its keys in L2. With a causal mask the longest blocks come first, within the heads that
// are taken together, and every second round of CTAs goes backwards, so that a CTA that had a long block gets
// a short one next.
//
// For packed sequences, whose lengths only the device knows, CTAs that stay take blocks from the counter of
// an AttentionOrder. CTAs that divide keys take the work that an AttentionDivision assigns.
class AttentionSchedule {
 public:
  // `queue` is given if CTAs stay; of the threads that ask for work, those with `answers` confirm the read.
  AttentionSchedule(const AttentionTile& tile, const AttentionSizes& sizes,
                    const std::optional<WorkQueue>& queue, pred answers);

  // Runs `body` for each round in which this CTA has work, from 0 on.
  void each(const std::function<void(u32 round, const AttentionWork&)>& body) const;
  // Returns the work of a round; without work, it is outside of the tensors, or has no queries and keys.
  AttentionWork work(u32 round) const;

  // One thread of a CTA that stays calls this, besides the readers; if CTAs divide keys, a warp calls it.
  void announce() const;

  // Returns the grid's rule (launch_rule.h).
  static std::string grid(const AttentionTile& tile, int sms);

 private:
  // index() returns the number of a round's block, and block() the block's work.
  u32 index(u32 round) const;
  AttentionWork block(u32 index) const;
  void announce_from_counter(gptr<u32> order) const;

  const AttentionSizes& sizes_;
  const std::optional<WorkQueue>& queue_;
  pred answers_;
  const AttentionTile& tile_;
  u32 blocks_, heads_;  // of all batches
};

}  // namespace ptxbuilder::kernels
