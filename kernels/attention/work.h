// This is what a CTA multiplies: a block of queries, and the blocks of keys that it needs.
#pragma once

#include <optional>

#include "kernels/attention/kernel.h"
#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder::kernels {

// A launch is given this besides its tensors; see attention().
struct AttentionSizes {
  AttentionSizes(const AttentionOperation& operation, const AttentionTile& tile,
                 const Parameters& parameters);

  int heads_in_rows;
  u32 queries, keys, heads, batches, group;
  std::optional<u32> together;
  // Packed, and where batches have lengths: in addition to the difference of keys and queries.
  std::optional<s32> visible, hidden;
  std::optional<gptr<u32>> key_lengths;
  std::optional<u32> teams, parts;  // of CTAs that divide keys, and how many CTAs are in one (division.h)
  std::optional<gptr<u32>> query_offsets, key_offsets;
  std::optional<gptr<u32>> order;  // see AttentionOrder
};

// A CTA takes the blocks of keys from `first` to the one ahead of `end`, which are the part of this number.
struct KeyPart {
  u32 first, end, number;
  u32 count;  // of all parts
};

// A block of queries of a head. Of packed sequences, the first of their queries and keys are rows of Q and K.
struct AttentionWork {
  u32 row, head, batch;  // the row is of the sequence, and the head the first of those in rows
  u32 queries, keys;     // of the sequence
  std::optional<s32> visible, hidden;
  int heads_in_rows = 1;
  u32 first_query = 0, first_key = 0;
  // This says whether blocks of keys come from the first to the last, not the reverse.
  std::optional<pred> upwards = {};
  std::optional<KeyPart> part = {};  // of its keys, where CTAs divide them

  // Says whether there is any; see AttentionSchedule::work().
  pred exists() const { return row < queries; }
  // Both bounds count from keys - queries of a sequence, or of a batch that has a length.
  void count_from_difference();
  // All heads in one row: of the logarithms.
  u32 head_of_all(const AttentionSizes& sizes) const { return batch * sizes.heads + head; }
};

// This is the work at a row of a head of a batch, with the keys that the batch has.
AttentionWork work_of_batch(const AttentionSizes& sizes, u32 row, u32 head, u32 batch);
// This is the same of a packed sequence.
AttentionWork work_of_sequence(const AttentionSizes& sizes, u32 row, u32 head, u32 sequence);

// The blocks of keys that a block of queries needs, one after the other. Those that need a mask, since some
// query does not see all of it, are at both ends; the last counts as one, unless keys are whole blocks.
struct KeyBlocks {
  u32 first, end;                    // there is one at least; the queries may see nothing of it
  u32 first_unmasked, end_unmasked;  // without the last
  std::optional<pred> upwards;

  KeyBlocks(const AttentionTile& tile, const AttentionWork& work);
  u32 count() const { return end - first; }
  // The block that comes i-th.
  u32 at(u32 i) const;
  // Says of those after the one that comes first how many of all come before the first that needs no mask,
  // and before the next that does.
  std::pair<u32, u32> unmasked() const;
};

}  // namespace ptxbuilder::kernels
