// This finds a CTA's tiles of a product in groups, whose sizes the device alone knows.
#pragma once

#include <memory>

#include "kernels/gemm/work.h"
#include "ptxbuilder/tile/scheduler.h"

namespace ptxbuilder::kernels {

// One thread of a CTA, the producer's, finds the CTA's tiles and announces each to the consumers some rounds
// ahead: to walk over the groups takes loads and divisions, for which products would wait. Whatever the ends
// of groups hold, a group begins where the one before it ends, and ends there or after it and within the
// tensors.
class GroupSchedule {
 public:
  // A Body runs for one tile, and a Walk calls it for each.
  using Body = std::function<void(const Work&)>;
  using Walk = std::function<void(const Body&)>;

  // `all`: the rows, or with groups of k all of k. `walkers`: who finds the tiles; where all threads of the
  // producer need them, each walks for itself, and one announces.
  enum class Walkers : uint8_t { one_thread, warpgroup };
  GroupSchedule(Kernel& kernel, const GemmTile& tile, u32 all, u32 groups, gptr<s32> ends, Walkers walkers);

  // Runs `body` for each of this CTA's tiles that belong to `turn`. The first role that calls this is the
  // producer, which takes them from `walk`; the others read what that announces.
  void each(Turn turn, const Walk& walk, const Body& body) const;

  // This is where a walk over groups of rows is; each has some blocks of a cluster's tiles. After the last
  // group there is one more, of the rows that are in none.
  class Cursor {
   public:
    using Count = std::function<u32(u32 rows)>;  // of blocks of a group
    Cursor(const GroupSchedule& groups, Count count);

    // Goes on to the group that has block `number` of all, which is none before that of the last call; or to
    // the last group.
    void advance(u32 number);
    // Says whether there is that block; call it after advance() to the same number.
    pred has(u32 number) const { return number - before_.value() < count_.value(); }
    u32 group() const { return group_; }
    u32 number_in_group(u32 number) const { return number - before_.value(); }
    GroupPart part() const { return {begin_, end_}; }

   private:
    const GroupSchedule& groups_;
    Count count_of_;
    Var<u32> group_, begin_, end_, before_, count_;
  };
  // The blocks of all groups.
  u32 total(const Cursor::Count& count) const;

  // The part of k that a group has.
  GroupPart part_of_k(u32 group) const;

 private:
  u32 end_of(u32 group, u32 begin) const;
  void announce(u32 round, const Work& work) const;

  GemmTile tile_;
  u32 all_, groups_;
  gptr<s32> ends_;
  Walkers walkers_;
  bool has_parts_;
  Announcements places_;
  std::shared_ptr<bool> announced_ = std::make_shared<bool>(false);
};

}  // namespace ptxbuilder::kernels
