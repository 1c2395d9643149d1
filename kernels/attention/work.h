// The work of a CTA: a block of queries, and the blocks of keys that it needs.
#pragma once

#include <optional>

#include "kernels/attention/kernel.h"
#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder::kernels {

// A launch gets these sizes besides its tensors; see attention().
struct AttentionSizes {
  AttentionSizes(const AttentionOperation& operation, const AttentionTile& tile,
                 const Parameters& parameters);

  int heads_in_rows;
  u32 queries, keys, heads, batches, group;
  std::optional<u32> heads_in_wave;
  // These apply to packed sequences and to batches with lengths, in addition to keys - queries.
  std::optional<s32> visible, window_start;
  std::optional<gptr<u32>> key_lengths, tree_mask;
  std::optional<u32> teams, parts;  // teams of CTAs that divide keys, and CTAs in a team (division.h)
  std::optional<gptr<u32>> query_offsets, key_offsets;
  std::optional<gptr<u32>> order;  // see AttentionOrder
};

// A CTA takes the blocks of keys in [first, end), which form the part of this number.
struct KeyPart {
  u32 first, end, number;
  u32 count;  // the number of parts
};

// The tokens of a sequence's queries are a tree: bit j of a query's mask says whether it sees the key
// first_key + j. All see the keys before, and first_key is below 0 if there are more queries than keys.
struct QueryTree {
  gptr<u32> masks;  // of each query of the sequence
  s32 first_key;
};

// A block of queries of a head. For packed sequences, the first queries and keys are rows of Q and K.
struct AttentionWork {
  u32 row, head, batch;  // the row counts in the sequence; the head is the first of those in rows
  u32 queries, keys;     // of the sequence; each query counts once for each head in rows
  std::optional<s32> visible, window_start;
  int heads_in_rows = 1;
  u32 first_query = 0, first_key = 0;
  // Returns whether blocks of keys are taken from the first to the last, not the reverse.
  std::optional<pred> ascending = {};
  std::optional<KeyPart> part = {};  // its part of the keys, if CTAs divide them
  std::optional<QueryTree> tree = {};

  // Returns whether there is any work; see AttentionSchedule::work().
  pred exists() const { return row < queries; }
  u32 own_queries() const { return queries / heads_in_rows; }  // each counts once
  // Both bounds, and a tree, count from keys - queries of a sequence, or of a batch with its own length.
  void count_from_difference(const AttentionSizes& sizes);
  // Returns the head's row of logarithms, counted over all batches.
  u32 head_of_all(const AttentionSizes& sizes) const { return batch * sizes.heads + head; }
};

// Returns the work at a row of a head of a batch, with the keys that the batch has.
AttentionWork work_of_batch(const AttentionSizes& sizes, u32 row, u32 head, u32 batch);
// Returns the work at a row of a head of a packed sequence, whose keys are packed too or those of a batch.
AttentionWork work_of_sequence(const AttentionSizes& sizes, u32 row, u32 head, u32 sequence);

// The blocks of keys that a block of queries needs, in order. Blocks that need a mask, since some query does
// not see all of them, are at both ends; the last counts as one of them, unless keys are whole blocks.
struct KeyBlocks {
  u32 first, end;                    // at least one block; the queries may see nothing of it
  u32 first_unmasked, end_unmasked;  // without the last block
  std::optional<pred> ascending;

  KeyBlocks(const AttentionTile& tile, const AttentionWork& work);
  u32 count() const { return end - first; }
  // Returns the i-th block in this order.
  u32 at(u32 i) const;
  // Returns the blocks that need no mask, except the one that is taken first, as a range [from, to) in this
  // order.
  std::pair<u32, u32> unmasked() const;
};

}  // namespace ptxbuilder::kernels
