#include "kernels/attention/division.h"

#include "kernels/attention/lanes.h"

namespace ptxbuilder::kernels {
AttentionDivision::AttentionDivision(const AttentionTile& t, const AttentionSizes& sizes)
    : tile_(t),
      sizes_(sizes),
      blocks_(ceil_div(sizes.queries, t.bm())),
      rows_(blocks_ * sizes.batches),
      team_(ctaid_x() % *sizes.teams),
      heads_(sizes.heads / *sizes.teams) {}

AttentionWork AttentionDivision::work_of_rows(u32 row, u32 head) const {
  return work_of_batch(sizes_, row % blocks_ * tile_.bm(), team_ + head * *sizes_.teams, row / blocks_);
}

u32 AttentionDivision::count_of_lane(u32 first) const {
  const u32 row = first + laneid();
  return select(row < rows_, blocks_of_rows(min(row, rows_ - 1)).count(), u32(0));
}

void AttentionDivision::announce(const WorkQueue& queue) const {
  Var<u32> counts(count_of_lane(0)), own_sum(counts.value());
  for_(kWarp, rows_, kWarp, [&](u32 first) { own_sum = own_sum.value() + count_of_lane(first); });
  const u32 line = sum_of_warp(own_sum) * heads_, piece = ceil_div(line, *sizes_.parts),
            number = ctaid_x() / *sizes_.teams, begin = min(number * piece, line);
  Var<u32> end(min(begin + piece, line));

  // Finds the row of the last block, and the number of a head's blocks before that row.
  const u32 last = (max(u32(end), 1) - 1) / heads_;
  Var<u32> first(0), before(0);
  while_([&] { return before.value() + sum_of_warp(counts) <= last; },
         [&] {
           before = before.value() + sum_of_warp(counts);
           first = first.value() + kWarp;
           counts = count_of_lane(first);
         });
  const u32 count = counts, to_here = before.value() + sum_of_lanes(count),
            lane = instruction<"popc.b32">(instruction<"vote.sync.ballot.b32">(to_here <= last, kAllLanes)),
            rows_before = shfl_sync_idx(to_here - count, lane), of_row = shfl_sync_idx(count, lane),
            last_head = (max(u32(end), 1) - 1 - rows_before * heads_) / of_row;
  Var<u32> row(first.value() + lane), head(last_head), start(rows_before * heads_ + last_head * of_row);

  if_(laneid() == 0, [&] {
    queue.announce([&](u32) { return end.value() > begin; },
                   [&] {
                     AttentionWork w = work_of_rows(row, head);
                     const KeyBlocks all(tile_, w);
                     const u32 from = max(begin, start.value()), first_part = start / piece;
                     w.part = {all.first + (from - start.value()), all.first + (end.value() - start.value()),
                               number - first_part, (start + all.count() - 1) / piece - first_part + 1};
                     end = from;
                     if_(from > begin, [&] {
                       if_(
                           head.value() == 0,
                           [&] {
                             row = row - 1;
                             head = heads_ - 1;
                           },
                           [&] { head = head - 1; });
                       start = start - blocks_of_rows(row).count();
                     });
                     return w;
                   });
  });
}

}  // namespace ptxbuilder::kernels
