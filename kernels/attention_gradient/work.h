// Describes the work of a CTA in attention's backward pass, which is a block of keys together with the blocks
// of queries that see these keys.
#pragma once

#include "kernels/attention_gradient/packed.h"

namespace ptxbuilder::kernels {

// A block of keys, and the blocks of queries that see some of its keys. With a causal mask, the first of
// these blocks do not see all keys; with a window, neither do the last.
struct GradientWork {
  GradientWork(const AttentionGradientOperation& o, const AttentionGradientTile& t, const Parameters& p)
      : key_blocks(t.heads_first ? nctaid_z() : nctaid_x() / t.ctas),
        key_block(t.heads_first ? ctaid_z() : ctaid_x() / t.ctas),
        first_key(key_block * t.bn()),
        key_heads(t.heads_first ? nctaid_x() / t.ctas : nctaid_y()),
        head(t.heads_first ? ctaid_x() / t.ctas : ctaid_y()),
        batch(t.heads_first ? ctaid_y() : ctaid_z()),
        group(p.get<u32>("group") / t.ctas),
        first_head(head * p.get<u32>("group") + ctaid_x() % t.ctas * group),
        queries(o.packed ? u32(0) : p.get<u32>("queries")),
        keys(p.get<u32>("keys")),
        first(0),
        first_whole(0),
        end_whole(0),
        end(0),
        staggered(o.depth != 128 && !o.causal && !o.window && !o.deterministic) {
    // If the order of additions is fixed, the last block of keys comes first. With a causal mask, it has the
    // fewest queries and reaches each of them first, so that no CTA waits for a CTA that begins later.
    if (o.deterministic) {
      key_block = key_blocks - 1 - key_block;
      first_key = key_block * t.bn();
    }
    if (o.packed) {
      sequence.emplace(t, p, batch);
      queries = sequence->queries;
      key_row = p.get<gptr<u32>>("key_offsets")[batch];
      keys = u32(p.get<gptr<u32>>("key_offsets")[batch + 1]) - key_row;
    }
    end = ceil_div(queries, t.bm);
    const auto of_mask = [&](const char* bound) {
      const s32 x = p.get<s32>(bound);
      return o.packed ? x + (s32(keys) - s32(queries)) : x;
    };
    if (o.causal) {
      visible = of_mask("visible");
      // Returns the first query that sees key `behind` - 1.
      const auto block_of = [&](s32 behind) { return min(u32(max(behind - *visible, 0)), queries); };
      first = min(block_of(s32(first_key) + 1) / t.bm, end);
      first_whole = min(ceil_div(block_of(s32(first_key) + t.bn()), t.bm), end);
    }
    u32 whole_end = end;
    if (o.window) {
      window_start = of_mask("window_start");
      // Returns the first query that does not see key `behind` - 1.
      const auto end_of = [&](s32 behind) { return u32(max(behind - *window_start, 0)); };
      whole_end = end_of(s32(first_key) + 1) / t.bm;
      end = min(ceil_div(end_of(s32(first_key) + t.bn()), t.bm), end);
      first = min(first, end), first_whole = min(first_whole, end);
    }
    first_whole = select(first_key + t.bn() > keys, end, max(first_whole, first));
    end_whole = o.window ? max(min(whole_end, end), first_whole) : end;
  }

  // Returns whether the sequence has keys in this block.
  pred exists() const { return first_key < keys; }
  // Returns the number of the `of_group`-th query head that this CTA processes. There are `group` such heads.
  u32 head_of_queries(u32 of_group) const { return first_head + of_group; }
  // Returns the number of a head's first block of queries in the arrays that the kernels share.
  u32 first_block(const AttentionGradientTile& t, u32 of_group) const {
    if (sequence) return head_of_queries(of_group) * sequence->blocks + sequence->first_block;
    const u32 heads_before = batch * key_heads * group * t.ctas;
    return (heads_before + head_of_queries(of_group)) * ceil_div(queries, t.bm);
  }
  // These functions return the batch coordinate of the work in tensor maps, and the rows of a query and of a
  // key in the tensors.
  u32 batch_of_map() const { return sequence ? u32(0) : batch; }
  u32 row_of_query(u32 query) const { return sequence ? sequence->row + query : query; }
  u32 row_of_key(u32 key) const { return sequence ? key_row + key : key; }

  // Returns the i-th block of queries to be processed. CTAs that add to the same sums of dQ at the same time
  // are serialized, so each CTA begins with a different block, unless a mask already has this effect.
  u32 nth_block(const AttentionGradientTile& t, u32 i) const {
    if (!staggered) return i;
    const u32 at = i + first_key / t.bm % end;
    return select(at < end, at, at - end);
  }

  // Returns how many later blocks of keys also add to the sums of this block of queries.
  u32 turn(const AttentionGradientTile& t, u32 block) const {
    u32 blocks = sequence ? ceil_div(keys, t.bn()) : key_blocks;
    if (visible) {
      const u32 behind = (block + 1) * t.bm;  // end of the block of queries
      blocks = select(behind > queries, blocks,
                      min(ceil_div(u32(max(s32(behind) - 1 + *visible, 0)), t.bn()), blocks));
    }
    return blocks - 1 - key_block;
  }

  u32 key_blocks, key_block, first_key, key_heads, head, batch, group, first_head, queries, keys;
  u32 first, first_whole, end_whole, end;  // bounds in blocks of queries
  bool staggered;
  std::optional<s32> visible, window_start;
  std::optional<PackedQueries> sequence;
  u32 key_row = 0;
};

}  // namespace ptxbuilder::kernels
