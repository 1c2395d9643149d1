// Determines which queries a CTA processes, and when.
#pragma once

#include <functional>

#include "kernels/attention/queue.h"

namespace ptxbuilder::kernels {

// A CTA processes one block of queries, or one after the other if CTAs stay. The blocks of a head are
// neighbours, so that CTAs share the head's keys in L2. With a causal mask the longest blocks come first,
// within the heads that are processed together, and every second round of CTAs goes backwards, so that a CTA
// that had a long block gets a short one next. For packed sequences, whose lengths only the device knows,
// CTAs that stay take blocks from the counter of an AttentionOrder. CTAs that divide keys process the work
// that an AttentionDivision assigns.
class AttentionSchedule {
 public:
  // `queue` is given if CTAs stay. Among the threads that request work, those for which `answers` is true
  // confirm the read.
  AttentionSchedule(const AttentionTile& tile, const AttentionSizes& sizes,
                    const std::optional<WorkQueue>& queue, pred answers);

  // Runs `body` for each round in which this CTA has work, beginning with round 0.
  void each(const std::function<void(u32 round, const AttentionWork&)>& body) const;
  // Returns the work of a round. If there is no work, the result is outside the tensors, or has no queries
  // and keys.
  AttentionWork work(u32 round) const;

  // Announces work. In a CTA that stays, one thread that is not a reader must call this; if CTAs divide keys,
  // a warp must.
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
  u32 blocks_, heads_;  // blocks of a head; heads of all batches
};

}  // namespace ptxbuilder::kernels
