// Determines the blocks of queries that a CTA processes, and their order.
#pragma once

#include <functional>

#include "kernels/attention/queue.h"

namespace ptxbuilder::kernels {

// A CTA processes one block of queries, or several if CTAs stay resident. The blocks of a head are adjacent,
// so that CTAs share the head's keys in L2. With a causal mask, the longest blocks come first among the heads
// that are processed together. Every second round of CTAs runs backwards, so that a CTA with a long block
// gets a short one next. The lengths of packed sequences are known only on the device, so persistent CTAs
// take blocks from the counter of an AttentionOrder. CTAs that divide keys process the work that an
// AttentionDivision assigns.
class AttentionSchedule {
 public:
  // `queue` must be set if CTAs stay resident. Among the threads that read work from the queue, those for
  // which `answers` is true confirm that they have read it.
  AttentionSchedule(const AttentionTile& tile, const AttentionSizes& sizes,
                    const std::optional<WorkQueue>& queue, pred answers);

  // Runs `body` for each round in which this CTA has work, starting with round 0.
  void each(const std::function<void(u32 round, const AttentionWork&)>& body) const;
  // Returns the work of a round. If there is none, the result is outside the tensors, or has no queries and
  // keys.
  AttentionWork work(u32 round) const;

  // Announces work. If CTAs stay resident, one thread that is not a reader must call this function; if CTAs
  // divide keys, all lanes of a warp must call it.
  void announce() const;

  // Returns the rule for the grid (launch_rule.h).
  static std::string grid(const AttentionTile& tile, int sms);

 private:
  // index() returns the number of the block of queries that this CTA processes in a round. block() returns
  // the work for a block.
  u32 index(u32 round) const;
  AttentionWork block(u32 index) const;
  void announce_from_counter(gptr<u32> order) const;

  const AttentionSizes& sizes_;
  const std::optional<WorkQueue>& queue_;
  pred answers_;
  const AttentionTile& tile_;
  u32 blocks_, heads_;  // number of blocks per head, and number of heads in all batches
};

}  // namespace ptxbuilder::kernels
