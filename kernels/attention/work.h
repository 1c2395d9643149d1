// The work of a CTA: a block of queries, and the blocks of keys that it needs.
#pragma once

#include <optional>

#include "kernels/attention/kernel.h"
#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder::kernels {

// The sizes that a launch passes in addition to its tensors; see attention().
struct AttentionSizes {
  AttentionSizes(const AttentionOperation& operation, const AttentionTile& tile,
                 const Parameters& parameters);

  int heads_in_rows;
  u32 queries, keys, heads, batches, group;
  std::optional<u32> heads_in_wave;
  // The bounds of masks, which for packed sequences and for batches with lengths are relative to keys -
  // queries.
  std::optional<s32> visible, window_start;
  std::optional<gptr<u32>> key_lengths, tree_mask;
  std::optional<u32> teams, parts;  // teams of CTAs that divide keys; CTAs of a team (division.h)
  std::optional<gptr<u32>> query_offsets, key_offsets;
  std::optional<gptr<u32>> order;  // see AttentionOrder
};

// The part of the keys that a CTA processes: the blocks [first, end), with the number of this part.
struct KeyPart {
  u32 first, end, number;
  u32 count;  // the number of parts
};

// A tree of tokens, which are a sequence's queries. Bit j of a query's mask is 1 if it sees the key first_key
// + j. All queries see the keys before these; first_key is below 0 if there are more queries than keys.
struct QueryTree {
  gptr<u32> masks;  // one for each query of the sequence
  s32 first_key;
};

// A block of queries of a head. For packed sequences, the first queries and keys are rows of Q and K.
struct AttentionWork {
  u32 row, head, batch;  // `row` is counted in the sequence; `head` is the first of the heads that are rows
  u32 queries, keys;     // totals of the sequence; a query is counted once for each head in rows
  std::optional<s32> visible, window_start;
  int heads_in_rows = 1;
  u32 first_query = 0, first_key = 0;
  // True if blocks of keys are processed from the first to the last, rather than in reverse.
  std::optional<pred> ascending = {};
  std::optional<KeyPart> part = {};  // the part of the keys to process, if CTAs divide them
  std::optional<QueryTree> tree = {};

  // Returns whether there is any work; see AttentionSchedule::work().
  pred exists() const { return row < queries; }
  u32 own_queries() const { return queries / heads_in_rows; }  // counts each query once
  // Makes both bounds, and a tree, count from keys - queries of a sequence, or of a batch with its own
  // length.
  void count_from_difference(const AttentionSizes& sizes);
  // Returns the head's row of logarithms, counted over all batches.
  u32 head_of_all(const AttentionSizes& sizes) const { return batch * sizes.heads + head; }
};

// Returns the work at a row of a head of a batch, with the keys that the batch has.
AttentionWork work_of_batch(const AttentionSizes& sizes, u32 row, u32 head, u32 batch);
// Returns the work at a row of a head of a packed sequence, whose keys are packed too or those of a batch.
AttentionWork work_of_sequence(const AttentionSizes& sizes, u32 row, u32 head, u32 sequence);

// The blocks of keys that a block of queries needs, in order. Blocks that need a mask, since some query does
// not see all of their keys, are at both ends. The last block is counted as one of these unless keys are
// whole blocks.
struct KeyBlocks {
  u32 first, end;                    // at least one block; the queries may see none of its keys
  u32 first_unmasked, end_unmasked;  // excludes the last block
  std::optional<pred> ascending;

  KeyBlocks(const AttentionTile& tile, const AttentionWork& work);
  u32 count() const { return end - first; }
  // Returns the i-th block in this order.
  u32 at(u32 i) const;
  // Returns the blocks that need no mask, except the one that is processed first, as a range [from, to) in
  // this order.
  std::pair<u32, u32> unmasked() const;
};

}  // namespace ptxbuilder::kernels
