// Describes the work of a CTA, which is a block of queries together with the blocks of keys that these
// queries need.
#pragma once

#include <optional>

#include "kernels/attention/kernel.h"
#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder::kernels {

// The sizes that a launch passes to the kernel in addition to the tensors; see attention().
struct AttentionSizes {
  AttentionSizes(const AttentionOperation& operation, const AttentionTile& tile,
                 const Parameters& parameters);

  int heads_in_rows;
  u32 queries, keys, heads, batches, group;
  std::optional<u32> heads_in_wave;
  // The bounds of masks. For packed sequences, and for batches with lengths, they are relative to keys -
  // queries.
  std::optional<s32> visible, window_start;
  std::optional<gptr<u32>> key_lengths, tree_mask;
  std::optional<u32> teams,
      parts;  // number of teams of CTAs that divide keys, and number of CTAs in a team (division.h)
  std::optional<gptr<u32>> query_offsets, key_offsets;
  std::optional<gptr<u32>> order;  // see AttentionOrder
};

// The part of the keys that a CTA processes. It consists of the blocks [first, end). `number` is the number
// of this part.
struct KeyPart {
  u32 first, end, number;
  u32 count;  // number of parts
};

// The masks of a sequence whose queries are a tree of tokens. Bit j of a query's mask is 1 if the query sees
// key first_key + j. All queries see the keys before first_key. It is negative if there are more queries than
// keys.
struct QueryTree {
  gptr<u32> masks;  // a mask for each query of the sequence
  s32 first_key;
};

// A block of queries of a head. For packed sequences, `first_query` and `first_key` are the rows of Q and K
// at which the sequence begins.
struct AttentionWork {
  u32 row, head, batch;  // `row` counts from the beginning of the sequence; `head` numbers groups of heads if
                         // heads are rows
  u32 queries, keys;     // totals of the sequence; each query counts once for every head that is a row
  std::optional<s32> visible, window_start;
  int heads_in_rows = 1;
  u32 first_query = 0, first_key = 0;
  // True if blocks of keys are processed from the first to the last, and false or unset if in reverse.
  std::optional<pred> ascending = {};
  std::optional<KeyPart> part = {};  // set if CTAs divide the keys
  std::optional<QueryTree> tree = {};

  // Returns whether there is work; see AttentionSchedule::work().
  pred exists() const { return row < queries; }
  u32 own_queries() const { return queries / heads_in_rows; }  // each query counts once
  // Makes `visible`, `window_start` and the tree relative to keys - queries, for a packed sequence or a batch
  // with its own length.
  void count_from_difference(const AttentionSizes& sizes);
  // Returns the number of the head, counted over all batches. It is also the number of the head's row of
  // logarithms.
  u32 head_of_all(const AttentionSizes& sizes) const { return batch * sizes.heads + head; }
};

// Returns the work for the block of queries that begins at `row`, in a head of a batch.
AttentionWork work_of_batch(const AttentionSizes& sizes, u32 row, u32 head, u32 batch);
// Returns the work for the block of queries that begins at `row`, in a head of a packed sequence. The keys
// are packed too or, with lengths, those of a batch.
AttentionWork work_of_sequence(const AttentionSizes& sizes, u32 row, u32 head, u32 sequence);

// The blocks of keys that a block of queries needs, in the order in which they are processed. Blocks at
// either end may need a mask because some queries do not see all of their keys. The last block always counts
// as masked unless the number of keys is known to be a multiple of the block's.
struct KeyBlocks {
  u32 first, end;                    // there is at least one block, even if the queries see none of its keys
  u32 first_unmasked, end_unmasked;  // range of blocks without a mask; it never contains the last block
  std::optional<pred> ascending;

  KeyBlocks(const AttentionTile& tile, const AttentionWork& work);
  u32 count() const { return end - first; }
  // Returns the i-th block to be processed.
  u32 at(u32 i) const;
  // Returns the range [from, to) of i for which block at(i) needs no mask. It excludes i = 0.
  std::pair<u32, u32> unmasked() const;
};

}  // namespace ptxbuilder::kernels
