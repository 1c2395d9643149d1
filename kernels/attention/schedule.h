// Which queries a CTA takes, and which blocks of keys they need.
#pragma once

#include <functional>
#include <optional>

#include "kernels/attention/kernel.h"
#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder::kernels {

// What a launch is given, beside its tensors; see attention().
struct AttentionSizes {
  AttentionSizes(const AttentionOperation& operation, const Parameters& parameters);

  u32 queries, keys, heads, batches, group;
  std::optional<u32> together;
  std::optional<s32> visible, hidden;  // packed: beside the difference of keys and queries
  std::optional<gptr<u32>> query_offsets, key_offsets;
};

// A block of queries of a head. Of packed sequences, the first of their queries and keys are rows of Q and K.
struct AttentionWork {
  u32 row, head, batch;  // the row is of the sequence
  u32 queries, keys;     // of the sequence
  std::optional<s32> visible, hidden;
  u32 first_query = 0, first_key = 0;

  // All heads in one row: of the logarithms.
  u32 head_of_all(const AttentionSizes& sizes) const { return batch * sizes.heads + head; }
};

// The blocks of keys that a block of queries needs, from the last to the first. Those that need a mask, since
// some query does not see all of it, are at both ends; the last counts as one, unless keys are whole blocks.
struct KeyBlocks {
  u32 first, end;                    // there is one at least, of which the queries may see nothing
  u32 first_unmasked, end_unmasked;  // without the last

  KeyBlocks(const AttentionTile& tile, const AttentionWork& work);
  u32 count() const { return end - first; }
};

// Which blocks of queries a CTA takes: one, or one after the other if CTAs stay. Those of a head are
// neighbours, so that CTAs share its keys in L2. With a causal mask the longest come first, of the heads that
// are taken together, and every second round of CTAs goes backwards, so that one that had a long block has a
// short one next.
class AttentionSchedule {
 public:
  AttentionSchedule(const AttentionTile& tile, const AttentionSizes& sizes);

  // Runs `body` for each round in which there is work for this CTA, from 0 on.
  void each(const std::function<void(u32 round)>& body) const;
  // In a round without work, it lies beyond the tensors.
  AttentionWork work(u32 round) const;

  // The grid's rule (launch_rule.h).
  static std::string grid(const AttentionTile& tile, int sms);

 private:
  u32 index(u32 round) const;

  const AttentionSizes& sizes_;
  bool stays_;
  int bm_;
  u32 blocks_, heads_;  // of all batches
};

}  // namespace ptxbuilder::kernels
