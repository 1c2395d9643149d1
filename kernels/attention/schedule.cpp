#include "kernels/attention/schedule.h"

#include <fmt/format.h>

#include "kernels/attention/division.h"
#include "kernels/attention/order.h"

namespace ptxbuilder::kernels {

AttentionSchedule::AttentionSchedule(const AttentionTile& t, const AttentionSizes& sizes,
                                     const std::optional<WorkQueue>& queue, pred answers)
    : sizes_(sizes),
      queue_(queue),
      answers_(answers),
      tile_(t),
      blocks_(ceil_div(sizes.queries, t.bm())),
      heads_(sizes.heads * sizes.batches) {}

void AttentionSchedule::each(const std::function<void(u32, const AttentionWork&)>& body) const {
  if (!tile_.stays()) return body(0, work(0));
  Var<u32> round(0);
  std::optional<AttentionWork> now;
  while_([&] { return (now = work(round))->exists(); },
         [&] {
           body(round, *now);
           queue_->done(round, answers_);
           round = round.value() + 1;
         });
}

AttentionWork AttentionSchedule::work(u32 round) const {
  if (!tile_.stays()) return block(ctaid_x());
  AttentionWork w = queue_->read(sizes_, round);
  // If a round runs backwards, the CTAs of a head end together, and so do not read from the first key
  // together.
  if (tile_.ascending) w.ascending = (round & 1u) == 0u;
  return w;
}

void AttentionSchedule::announce() const {
  if (sizes_.order) return announce_from_counter(*sizes_.order);
  if (sizes_.teams) return AttentionDivision(tile_, sizes_).announce(*queue_);
  std::optional<u32> i;
  queue_->announce([&](u32 round) { return *(i = index(round)) < blocks_ * heads_; },
                   [&] { return block(*i); });
}

void AttentionSchedule::announce_from_counter(gptr<u32> order) const {
  const u32 all = u32(order[AttentionOrder::kBlocks]) * sizes_.heads;
  const WorkCounter counter(order);
  std::optional<u32> i;
  queue_->announce([&](u32) { return *(i = counter.take(all)) < all; },
                   [&] {
                     const u32 entry = AttentionOrder::kFirst + *i / sizes_.heads * AttentionOrder::kEntry;
                     return work_of_sequence(sizes_, u32(order[entry + 1]) * tile_.bm(), *i % sizes_.heads,
                                             order[entry]);
                   });
}

AttentionWork AttentionSchedule::block(u32 i) const {
  u32 row = (i % blocks_) * tile_.bm(), head = i / blocks_;
  if (sizes_.query_offsets) return work_of_sequence(sizes_, row, head % sizes_.heads, head / sizes_.heads);
  if (const std::optional<u32>& together = sizes_.heads_in_wave) {
    // If the last group would have fewer than three quarters of a group's heads, they are added to the
    // previous group.
    const u32 last = max((heads_ + *together / 4) / *together, 1) - 1;
    const u32 group = min(i / (*together * blocks_), last), first = group * *together,
              at = i - first * blocks_;
    const u32 heads = select(group == last, heads_ - first, *together);
    row = (blocks_ - 1 - at / heads) * tile_.bm();
    head = first + at % heads;
  }
  return work_of_batch(sizes_, row, head % sizes_.heads, head / sizes_.heads);
}

u32 AttentionSchedule::index(u32 round) const {
  const pred backwards = sizes_.heads_in_wave ? (round & 1u) == 1u : pred(false);
  return round * nctaid_x() + select(backwards, nctaid_x() - 1 - ctaid_x(), ctaid_x());
}

std::string AttentionSchedule::grid(const AttentionTile& t, int sms) {
  if (t.split) return "teams * parts";
  const std::string blocks = fmt::format("ceil_div(queries, {}) * heads * batches", t.bm());
  if (!t.persistent) return blocks;
  return fmt::format("min({}, {})", sms == 0 ? "multiprocessors" : std::to_string(sms), blocks);
}

}  // namespace ptxbuilder::kernels
