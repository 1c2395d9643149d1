#include "kernels/attention/division.h"

#include "kernels/attention/lanes.h"

namespace ptxbuilder::kernels {
namespace {

// The maximum number of blocks of queries in a sequence that a lane counts by itself.
constexpr int kBlocksOfLane = 4;
// If a sequence has several blocks of queries, a block is not divided if a piece has at least this many times
// as many keys as the block.
constexpr int kLeastOfPiece = 4;

u32 lanes_that(pred holds) { return instruction<"vote.sync.ballot.b32">(holds, kAllLanes); }
u32 count_bits(u32 bits) { return instruction<"popc.b32">(bits); }

}  // namespace

AttentionDivision::AttentionDivision(const AttentionTile& t, const AttentionSizes& sizes)
    : tile_(t), sizes_(sizes), team_(ctaid_x() % *sizes.teams), heads_(sizes.heads / *sizes.teams) {}

AttentionWork AttentionDivision::work(u32 batch, u32 row, u32 head) const {
  const u32 of_all = team_ + head * *sizes_.teams;
  return sizes_.query_offsets ? work_of_sequence(sizes_, row, of_all, batch)
                              : work_of_batch(sizes_, row, of_all, batch);
}

u32 AttentionDivision::rows_of(u32 batch) const {
  if (!sizes_.query_offsets) return sizes_.queries;
  const gptr<u32> offsets = *sizes_.query_offsets;
  return (u32(offsets[batch + 1]) - offsets[batch]) * sizes_.heads_in_rows;
}

u32 AttentionDivision::count(const AttentionWork& w, u32 first, u32 end, int step) const {
  Var<u32> sum(0);
  for_(first, end, step, [&](u32 row) {
    AttentionWork at = w;
    at.row = row;
    sum = sum.value() + KeyBlocks(tile_, at).count();
  });
  return sum;
}

u32 AttentionDivision::count_of_lane(u32 first) const {
  const u32 batch = first + laneid();
  const AttentionWork own = work(min(batch, sizes_.batches - 1), 0, 0);
  const u32 rows = select(batch < sizes_.batches, own.queries, u32(0)), few = kBlocksOfLane * tile_.bm();
  if (!sizes_.query_offsets) return count(own, 0, rows, tile_.bm());
  Var<u32> sum(count(own, 0, min(rows, few), tile_.bm())), longer(lanes_that(rows > few));
  while_([&] { return longer.value() != 0; },
         [&] {
           const u32 others = longer.value() - 1, lane = count_bits(others & ~longer.value());
           const auto of_lane = [&](u32 value) { return shfl_sync_idx(value, lane); };
           AttentionWork w = own;
           w.queries = of_lane(rows), w.keys = of_lane(own.keys);
           if (w.visible) w.visible = s32(of_lane(u32(*own.visible)));
           if (w.window_start) w.window_start = s32(of_lane(u32(*own.window_start)));
           const int step = static_cast<int>(kWarp) * tile_.bm();
           const u32 more = sum_of_warp(count(w, few + laneid() * tile_.bm(), w.queries, step));
           sum = sum.value() + select(laneid() == lane, more, u32(0));
           longer = longer.value() & others;
         });
  return sum;
}

AttentionDivision::Found AttentionDivision::find(u32 place, u32 items, u32 counts,
                                                 const std::function<u32(u32)>& count_from) const {
  Var<u32> of_lanes(counts), first(0), before(0);
  while_([&] { return (first.value() + kWarp < items) & (before.value() + sum_of_warp(of_lanes) <= place); },
         [&] {
           before = before.value() + sum_of_warp(of_lanes);
           first = first.value() + kWarp;
           of_lanes = count_from(first);
         });
  const u32 count = of_lanes, to_here = before.value() + sum_of_lanes(count),
            lane = count_bits(lanes_that(to_here <= place));
  return {first.value() + lane, shfl_sync_idx(to_here - count, lane), shfl_sync_idx(count, lane)};
}

AttentionDivision::Place AttentionDivision::place_at(u32 at, u32 of_first) const {
  const u32 of_head = at / heads_;
  const Found sequence =
      find(of_head, sizes_.batches, of_first, [&](u32 first) { return count_of_lane(first); });
  // find() returns a nonexistent sequence if there are no queries.
  const u32 batch = min(sequence.item, sizes_.batches - 1);
  Var<u32> row(0), before(sequence.before), count(sequence.count);
  if_(rows_of(batch) > u32(tile_.bm()), [&] {
    const AttentionWork w = work(batch, 0, 0);
    const auto blocks_from = [&](u32 first) {
      AttentionWork of_lane = w;
      of_lane.row = (first + laneid()) * tile_.bm();
      return select(of_lane.exists(), KeyBlocks(tile_, of_lane).count(), u32(0));
    };
    const Found block =
        find(of_head - sequence.before, ceil_div(w.queries, tile_.bm()), blocks_from(0), blocks_from);
    row = block.item * tile_.bm();
    before = sequence.before + block.before;
    count = block.count;
  });
  const u32 first_of_row = before.value() * heads_, head = (at - first_of_row) / max(u32(count), 1);
  return {batch, row, head, first_of_row + head * count.value(), count};
}

pred AttentionDivision::is_whole(u32 batch, u32 count, u32 piece) const {
  if (!sizes_.query_offsets) return pred(false);
  return (rows_of(batch) > u32(tile_.bm())) & (count * kLeastOfPiece <= piece);
}

u32 AttentionDivision::boundary(u32 at, u32 line, u32 piece, u32 of_first) const {
  if (!sizes_.query_offsets) return min(at, line);
  const Place place = place_at(min(at, max(line, 1) - 1), of_first);
  return select(at >= line, line, select(is_whole(place.batch, place.count, piece), place.start, at));
}

void AttentionDivision::announce(const WorkQueue& queue) const {
  const u32 of_first = count_of_lane(0);
  Var<u32> own_sum(of_first);
  for_(kWarp, sizes_.batches, kWarp, [&](u32 first) { own_sum = own_sum.value() + count_of_lane(first); });
  const u32 line = sum_of_warp(own_sum) * heads_, piece = ceil_div(line, *sizes_.parts),
            number = ctaid_x() / *sizes_.teams, begin = boundary(number * piece, line, piece, of_first);
  Var<u32> end(boundary(number * piece + piece, line, piece, of_first));

  const Place last = place_at(max(u32(end), 1) - 1, of_first);
  Var<u32> batch(last.batch), row(last.row), head(last.head), start(last.start);

  const auto step_back = [&] {
    const auto to_sequence_before = [&] {
      batch = batch - 1;
      if (sizes_.query_offsets) while_([&] { return rows_of(batch) == 0; }, [&] { batch = batch - 1; });
      row = (ceil_div(rows_of(batch), tile_.bm()) - 1) * tile_.bm();
    };
    const auto to_row_before = [&] {
      head = heads_ - 1;
      if_(row.value() == 0, to_sequence_before, [&] { row = row - tile_.bm(); });
    };
    if_(head.value() == 0, to_row_before, [&] { head = head - 1; });
    start = start - KeyBlocks(tile_, work(batch, row, 0)).count();
  };
  if_(laneid() == 0, [&] {
    queue.announce([&](u32) { return end.value() > begin; },
                   [&] {
                     AttentionWork w = work(batch, row, head);
                     const KeyBlocks all(tile_, w);
                     const u32 from = max(begin, start.value()), first_part = start / piece;
                     const pred whole = is_whole(batch, all.count(), piece);
                     w.part = {all.first + (from - start.value()), all.first + (end.value() - start.value()),
                               select(whole, u32(0), number - first_part),
                               select(whole, u32(1), (start + all.count() - 1) / piece - first_part + 1)};
                     end = from;
                     if_(from > begin, step_back);
                     return w;
                   });
  });
}

}  // namespace ptxbuilder::kernels
