// Finds a CTA's tiles of a grouped product, where only the device knows the sizes of the groups.
#pragma once

#include <memory>

#include "kernels/gemm/work.h"
#include "ptxbuilder/tile/scheduler.h"

namespace ptxbuilder::kernels {

// One thread of a CTA, in the producer, finds the CTA's tiles and announces each to the consumers some rounds
// in advance, because iterating over the groups needs loads and divisions, for which products would have to
// wait. Whatever the ends of groups hold, a group begins where the previous one ends, ends at or after its
// own beginning, and is within the tensors. Groups whose rows are counted begin at equal distances, and end
// before the next one begins.
class GroupSchedule {
 public:
  // A Body runs for one tile; a Walk calls it for each tile.
  using Body = std::function<void(const Work&)>;
  using Walk = std::function<void(const Body&)>;

  // `all` is the number of rows or, with groups of k, of k. `walkers` determines which threads find the
  // tiles: if all threads of the producer need them, each thread iterates for itself, and one announces the
  // tiles. `sizes` are the ends of groups or, with `are_counts`, the numbers of rows.
  enum class Walkers : uint8_t { one_thread, warpgroup };
  GroupSchedule(Kernel& kernel, const GemmTile& tile, u32 all, u32 groups, gptr<s32> sizes, bool are_counts,
                Walkers walkers);

  // Runs `body` for each of this CTA's tiles that belong to `turn`. The first role that calls this function
  // is the producer, which takes the tiles from `walk`; the others read what the producer announces.
  void each(Turn turn, const Walk& walk, const Body& body) const;

  // The position in an iteration over groups of rows, each of which has some blocks of a cluster's tiles.
  // After the last group there is one more, with the rows that belong to no group; it is empty if rows are
  // counted.
  class Cursor {
   public:
    using Count = std::function<u32(u32 rows)>;  // returns the number of blocks of a group
    Cursor(const GroupSchedule& groups, Count count);

    // Advances to the group that contains block `number` of all blocks, or to the last group. `number` must
    // not be less than in the previous call.
    void advance(u32 number);
    // Returns whether block `number` exists; call this after advance() with the same number.
    pred has(u32 number) const { return number - before_.value() < count_.value(); }
    u32 group() const { return group_; }
    u32 number_in_group(u32 number) const { return number - before_.value(); }
    GroupPart part() const { return {begin_, end_}; }

   private:
    const GroupSchedule& groups_;
    Count count_of_;
    Var<u32> group_, begin_, end_, before_, count_;
  };
  // Returns the number of blocks of all groups.
  u32 total(const Cursor::Count& count) const;

  // Returns the part of k that a group covers.
  GroupPart part_of_k(u32 group) const;

 private:
  u32 end_of(u32 group, u32 begin) const;
  GroupPart part_of_rows(u32 group, u32 end_before) const;
  void announce(u32 round, const Work& work) const;

  GemmTile tile_;
  u32 all_, groups_;
  gptr<s32> sizes_;
  std::optional<u32> apart_;  // if rows are counted: the distance from one group's first row to the next
                              // one's
  Walkers walkers_;
  bool has_parts_;
  Announcements places_;
  std::shared_ptr<bool> announced_ = std::make_shared<bool>(false);
};

}  // namespace ptxbuilder::kernels
