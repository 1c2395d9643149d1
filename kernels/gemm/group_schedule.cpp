#include "kernels/gemm/group_schedule.h"

#include <vector>

#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder::kernels {
namespace {

constexpr int kPlaces = 4, kNumbers = 8, kNumbersOfParts = 12;
constexpr uint32_t kBeyond = ~uint32_t{0};  // number of a pseudo group that marks the end of the tiles

}  // namespace

GroupSchedule::GroupSchedule(Kernel& k, const GemmTile& t, u32 all, u32 groups, gptr<s32> sizes,
                             bool are_counts, Walkers walkers)
    : tile_(t),
      all_(all),
      groups_(groups),
      sizes_(sizes),
      apart_(are_counts ? std::optional(all / groups) : std::nullopt),
      walkers_(walkers),
      has_parts_(t.split_last > 1),
      places_(k, kPlaces, has_parts_ ? kNumbersOfParts : kNumbers, 4 * (t.pingpong ? 1 : t.consumers)) {}

u32 GroupSchedule::end_of(u32 group, u32 begin) const {
  Var<u32> end(all_);
  if_(group < groups_, [&] { end = min(u32(max(s32(sizes_[group]), s32(begin))), all_); });
  return end;
}

GroupPart GroupSchedule::part_of_rows(u32 group, u32 end_before) const {
  if (!apart_) return {end_before, end_of(group, end_before)};
  Var<u32> begin(all_), end(all_);
  if_(group < groups_, [&] {
    begin = group * *apart_;
    end = begin.value() + u32(min(max(s32(sizes_[group]), s32(0)), s32(*apart_)));
  });
  return {begin, end};
}

GroupPart GroupSchedule::part_of_k(u32 group) const {
  Var<u32> begin(0);
  if_(group > 0, [&] { begin = end_of(group - 1, 0); });
  return {begin, end_of(group, begin)};
}

GroupSchedule::Cursor::Cursor(const GroupSchedule& groups, Count count)
    : groups_(groups),
      count_of_(std::move(count)),
      group_(0),
      begin_(0),
      end_(groups.part_of_rows(0, 0).end),
      before_(0),
      count_(count_of_(end_.value())) {}

void GroupSchedule::Cursor::advance(u32 number) {
  while_([&] { return (number - before_.value() >= count_.value()) & (group_.value() < groups_.groups_); },
         [&] {
           before_ = before_.value() + count_;
           group_ = group_.value() + 1;
           const GroupPart part = groups_.part_of_rows(group_, end_);
           begin_ = part.begin;
           end_ = part.end;
           count_ = count_of_(end_.value() - begin_);
         });
}

u32 GroupSchedule::total(const Cursor::Count& count) const {
  Var<u32> before(0), total(0);
  for_(u32(0), groups_ + 1, [&](u32 group) {
    const GroupPart part = part_of_rows(group, before);
    total = total.value() + count(part.end - part.begin);
    before = part.end;
  });
  return total;
}

void GroupSchedule::announce(u32 round, const Work& w) const {
  const sptr<u32> to = places_.begin(round);
  std::vector<u32> numbers = {w.x, w.y, *w.batch, w.first, w.last, w.group->begin, w.group->end};
  if (w.parts)
    numbers.insert(numbers.end(), {w.parts->count, w.parts->rank, w.parts->owners, w.parts->place});
  for (size_t i = 0; i < numbers.size(); ++i) to[u32(i)] = numbers[i];
  places_.publish(round);
}

void GroupSchedule::each(Turn turn, const Walk& walk, const Body& body) const {
  if (!std::exchange(*announced_, true)) {
    Var<u32> round(0);
    const auto next = [&](const Work& work) {
      if (walkers_ == Walkers::one_thread)
        announce(round, work);
      else
        elect([&] { announce(round, work); });
      round = round.value() + 1;
    };
    walk([&](const Work& work) {
      next(work);
      body(work);
    });
    const u32 zero(0);
    for (int i = 0; i < (tile_.pingpong ? tile_.consumers : 1); ++i)
      next({zero, zero, u32(kBeyond), zero, zero, std::nullopt, GroupPart{zero, zero}});
    return;
  }
  Var<u32> round(turn.index);
  Var<pred> more(pred(true));
  while_([&] { return more.value(); },
         [&] {
           const sptr<u32> from = places_.read(round);
           const auto word = [&](int i) { return warp_uniform(from[u32(i)]); };
           Work work = {word(0), word(1), word(2), word(3), word(4)};
           work.group = {word(5), word(6)};
           if (has_parts_) work.parts = {word(7), word(8), word(9), word(10)};
           bar_warp_sync(0xffffffff);  // wait until all lanes have read the announcement
           places_.done(round, laneid() == 0);
           more = *work.batch != u32(kBeyond);
           if_(more.value(), [&] { body(work); });
           round = round.value() + turn.of;
         });
}

}  // namespace ptxbuilder::kernels
