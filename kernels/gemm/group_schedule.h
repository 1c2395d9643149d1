// This class finds a CTA's tiles of a product in groups, whose sizes only the device knows.
#pragma once

#include <memory>

#include "kernels/gemm/work.h"
#include "ptxbuilder/tile/scheduler.h"

namespace ptxbuilder::kernels {

// One thread of a CTA, in the producer, finds the CTA's tiles and announces each to the consumers some rounds
// ahead: iterating over the groups needs loads and divisions, for which products would have to wait. Whatever
// values the ends of groups have, a group begins where the previous one ends, and ends at or after its own
// beginning and within the tensors. Groups whose rows are counted begin at equal distances, and end before
// the next one begins.
class GroupSchedule {
 public:
  // A Body runs for one tile, and a Walk calls it for each.
  using Body = std::function<void(const Work&)>;
  using Walk = std::function<void(const Body&)>;

  // `all` is the number of rows, or of k with groups of k. `walkers` determines which threads find the tiles:
  // if all threads of the producer need them, each one iterates for itself, and one announces them. `sizes`
  // are the ends of groups or, with `are_counts`, how many rows each has.
  enum class Walkers : uint8_t { one_thread, warpgroup };
  GroupSchedule(Kernel& kernel, const GemmTile& tile, u32 all, u32 groups, gptr<s32> sizes, bool are_counts,
                Walkers walkers);

  // Runs `body` for each of this CTA's tiles that belong to `turn`. The first role that calls this function
  // is the producer, which takes the tiles from `walk`; the others read what the producer announces.
  void each(Turn turn, const Walk& walk, const Body& body) const;

  // The position in an iteration over groups of rows; each group has some blocks of a cluster's tiles. After
  // the last group comes one more, with the rows that belong to no group; it is empty if rows are counted.
  class Cursor {
   public:
    using Count = std::function<u32(u32 rows)>;  // the number of blocks of a group
    Cursor(const GroupSchedule& groups, Count count);

    // Advances to the group that contains block `number` of all blocks, which must not precede that of the
    // last call; or to the last group.
    void advance(u32 number);
    // Returns whether that block exists; call this after advance() with the same number.
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
  std::optional<u32> apart_;  // the rows from one group's first to the next one's, if rows are counted
  Walkers walkers_;
  bool has_parts_;
  Announcements places_;
  std::shared_ptr<bool> announced_ = std::make_shared<bool>(false);
};

}  // namespace ptxbuilder::kernels
