#include "kernels/attention/work.h"

namespace ptxbuilder::kernels {

AttentionSizes::AttentionSizes(const AttentionOperation& o, const AttentionTile& t, const Parameters& p)
    : heads_in_rows(o.heads_in_rows),
      queries(p.get<u32>("queries")),
      keys(o.packs_keys() ? u32(0) : p.get<u32>("keys")),
      heads(p.get<u32>("heads")),
      batches(p.get<u32>("batches")),
      group(p.get<u32>("group")) {
  if (o.causal) visible = p.get<s32>("visible");
  if (takes_longest_first(o)) heads_in_wave = p.get<u32>("heads_in_wave");
  if (o.window) window_start = p.get<s32>("window_start");
  if (o.lengths) key_lengths = p.get<gptr<u32>>("key_lengths");
  if (o.tree) tree_mask = p.get<gptr<u32>>("tree_mask");
  if (t.split) teams = p.get<u32>("teams"), parts = p.get<u32>("parts");
  if (!o.packed) return;
  query_offsets = p.get<gptr<u32>>("query_offsets");
  if (o.packs_keys()) key_offsets = p.get<gptr<u32>>("key_offsets");
  if (t.persistent) order = p.get<gptr<u32>>("order");
}

KeyBlocks::KeyBlocks(const AttentionTile& t, const AttentionWork& work)
    : first(0), end(0), first_unmasked(0), end_unmasked(0), ascending(work.ascending) {
  // Returns the end, or the beginning, of the range of keys that the query of a row sees.
  const auto limit = [&](u32 row, s32 from) {
    return u32(min(max(s32(row / work.heads_in_rows) + from, 0), s32(work.keys)));
  };
  const u32 last_row = work.row + (t.bm() - 1);
  end = max(ceil_div(work.visible ? limit(last_row, *work.visible) : work.keys, t.bn), 1);
  if (work.window_start) first = min(limit(work.row, *work.window_start) / t.bn, end - 1);
  if (work.part) first = work.part->first, end = work.part->end;
  u32 seen_by_all = work.visible ? limit(work.row, *work.visible) : work.keys;
  if (work.tree) seen_by_all = min(seen_by_all, u32(max(work.tree->first_key, 0)));
  end_unmasked = min(seen_by_all / t.bn, end - 1);
  if (!work.window_start && !work.part) return;
  end_unmasked = max(end_unmasked, first);
  first_unmasked = work.window_start
                       ? min(max(ceil_div(limit(last_row, *work.window_start), t.bn), first), end_unmasked)
                       : first;
}

u32 KeyBlocks::at(u32 i) const {
  const u32 downwards = end - 1 - i;
  return ascending ? select(*ascending, first + i, downwards) : downwards;
}

std::pair<u32, u32> KeyBlocks::unmasked() const {
  const u32 from = end - end_unmasked, to = end - first_unmasked;
  if (!ascending) return {from, to};
  const u32 from_first = max(first_unmasked - first, 1);
  return {select(*ascending, from_first, from),
          select(*ascending, max(end_unmasked - first, from_first), to)};
}

namespace {

u32 keys_of_batch(const AttentionSizes& sizes, u32 batch) {
  return min(u32((*sizes.key_lengths)[batch]), sizes.keys);
}

}  // namespace

AttentionWork work_of_batch(const AttentionSizes& sizes, u32 row, u32 head, u32 batch) {
  AttentionWork w = {
      row, head, batch, sizes.queries, sizes.keys, sizes.visible, sizes.window_start, sizes.heads_in_rows};
  if (sizes.key_lengths) {
    w.keys = keys_of_batch(sizes, batch);
    w.count_from_difference(sizes);
  }
  return w;
}

AttentionWork work_of_sequence(const AttentionSizes& sizes, u32 row, u32 head, u32 sequence) {
  AttentionWork w = {row, head, sequence, 0, 0, sizes.visible, sizes.window_start, sizes.heads_in_rows};
  const auto range = [&](gptr<u32> offsets, u32& first, u32& count) {
    first = offsets[sequence];
    count = u32(offsets[sequence + 1]) - first;
  };
  range(*sizes.query_offsets, w.first_query, w.queries);
  w.queries = w.queries * sizes.heads_in_rows;
  if (sizes.key_offsets)
    range(*sizes.key_offsets, w.first_key, w.keys);
  else
    w.keys = keys_of_batch(sizes, sequence);
  w.count_from_difference(sizes);
  return w;
}

void AttentionWork::count_from_difference(const AttentionSizes& sizes) {
  const s32 longer = s32(keys) - s32(own_queries());
  if (visible) visible = *visible + longer;
  if (window_start) window_start = *window_start + longer;
  if (!sizes.tree_mask) return;
  const u32 first = sizes.query_offsets ? first_query : batch * own_queries();
  tree = {*sizes.tree_mask + first, longer};
}

}  // namespace ptxbuilder::kernels
