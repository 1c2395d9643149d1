#include "kernels/attention/schedule.h"

#include <fmt/format.h>

namespace ptxbuilder::kernels {
AttentionSizes::AttentionSizes(const AttentionOperation& o, const Parameters& p)
    : queries(p.get<u32>("queries")),
      keys(o.packed ? u32(0) : p.get<u32>("keys")),
      heads(p.get<u32>("heads")),
      batches(p.get<u32>("batches")),
      group(p.get<u32>("group")) {
  if (o.causal) visible = p.get<s32>("visible");
  if (takes_longest_first(o)) together = p.get<u32>("together");
  if (o.window) hidden = p.get<s32>("hidden");
  if (!o.packed) return;
  query_offsets = p.get<gptr<u32>>("query_offsets");
  key_offsets = p.get<gptr<u32>>("key_offsets");
}

KeyBlocks::KeyBlocks(const AttentionTile& t, const AttentionWork& work)
    : first(0), end(0), first_unmasked(0), end_unmasked(0) {
  // The key in front of which a query's keys end, or begin.
  const auto limit = [&](u32 row, s32 from) { return u32(min(max(s32(row) + from, 0), s32(work.keys))); };
  const u32 last_row = work.row + (t.bm() - 1);
  end = max(ceil_div(work.visible ? limit(last_row, *work.visible) : work.keys, t.bn), 1);
  if (work.hidden) first = min(limit(work.row, *work.hidden) / t.bn, end - 1);
  end_unmasked = min((work.visible ? limit(work.row, *work.visible) : work.keys) / t.bn, end - 1);
  if (!work.hidden) return;
  end_unmasked = max(end_unmasked, first);
  first_unmasked = min(max(ceil_div(limit(last_row, *work.hidden), t.bn), first), end_unmasked);
}

AttentionSchedule::AttentionSchedule(const AttentionTile& t, const AttentionSizes& sizes)
    : sizes_(sizes),
      stays_(t.ahead),
      bm_(t.bm()),
      blocks_(ceil_div(sizes.queries, t.bm())),
      heads_(sizes.heads * sizes.batches) {}

void AttentionSchedule::each(const std::function<void(u32)>& body) const {
  if (!stays_) return body(0);
  Var<u32> round(0);
  while_([&] { return index(round) < blocks_ * heads_; },
         [&] {
           body(round);
           round = round.value() + 1;
         });
}

AttentionWork AttentionSchedule::work(u32 round) const {
  const u32 i = index(round);
  u32 row = (i % blocks_) * bm_, head = i / blocks_;
  if (const std::optional<u32>& together = sizes_.together) {
    // The last heads, too few for a group of their own, are of the group before.
    const u32 group = min(i / (*together * blocks_), max(heads_ / *together, 1) - 1),
              first = group * *together, at = i - first * blocks_;
    const u32 heads = select(group == max(heads_ / *together, 1) - 1, heads_ - first, *together);
    row = (blocks_ - 1 - at / heads) * bm_;
    head = first + at % heads;
  }
  AttentionWork w = {row,         head % sizes_.heads, head / sizes_.heads, sizes_.queries,
                     sizes_.keys, sizes_.visible,      sizes_.hidden};
  if (!sizes_.query_offsets) return w;
  const auto range = [&](gptr<u32> offsets, u32& first, u32& count) {
    first = offsets[w.batch];
    count = u32(offsets[w.batch + 1]) - first;
  };
  range(*sizes_.query_offsets, w.first_query, w.queries);
  range(*sizes_.key_offsets, w.first_key, w.keys);
  const s32 longer = s32(w.keys) - s32(w.queries);
  if (w.visible) w.visible = *w.visible + longer;
  if (w.hidden) w.hidden = *w.hidden + longer;
  return w;
}

u32 AttentionSchedule::index(u32 round) const {
  if (!stays_) return ctaid_x();
  const pred backwards = sizes_.together ? (round & 1u) == 1u : pred(false);
  return round * nctaid_x() + select(backwards, nctaid_x() - 1 - ctaid_x(), ctaid_x());
}

std::string AttentionSchedule::grid(const AttentionTile& t, int sms) {
  const std::string blocks = fmt::format("ceil_div(queries, {}) * heads * batches", t.bm());
  if (!t.ahead) return blocks;
  return fmt::format("min({}, {})", sms == 0 ? "multiprocessors" : std::to_string(sms), blocks);
}

}  // namespace ptxbuilder::kernels
