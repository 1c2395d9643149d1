// Finds the tiles of a CTA in a grouped product when the sizes of the groups are known only on the device.
#pragma once

#include <memory>

#include "kernels/gemm/work.h"
#include "ptxbuilder/tile/scheduler.h"

namespace ptxbuilder::kernels {

// Iterating over groups takes loads and divisions, and products would have to wait for them. Therefore one
// thread of the producer finds the CTA's tiles and announces each tile to the consumers several rounds in
// advance. Group ends are clamped. Whatever values they hold, a group begins where the previous group ends,
// does not end before it begins, and stays within the tensors. Groups given by counts begin at equal
// distances, and each ends no later than the next one begins.
class GroupSchedule {
 public:
  // A Body processes one tile. A Walk calls a Body for each tile of the CTA.
  using Body = std::function<void(const Work&)>;
  using Walk = std::function<void(const Body&)>;

  // `all` is the extent that the groups divide, which is m or, with groups of k, k. `sizes` points to the
  // ends of the groups or, if `are_counts`, to their numbers of rows. `walkers` selects the threads that find
  // tiles. If all threads of the producer need the tiles, each thread iterates for itself, and one of them
  // announces the tiles.
  enum class Walkers : uint8_t { one_thread, warpgroup };
  GroupSchedule(Kernel& kernel, const GemmTile& tile, u32 all, u32 groups, gptr<s32> sizes, bool are_counts,
                Walkers walkers);

  // Runs `body` for each tile of this CTA that belongs to `turn`. The first role that calls this function is
  // the producer, which gets the tiles from `walk`. The other roles read the tiles that the producer
  // announces.
  void each(Turn turn, const Walk& walk, const Body& body) const;

  // A position in an iteration over groups of rows. Each group consists of blocks, and a block is the tiles
  // that one cluster processes together. The last group is followed by an additional group for the rows
  // outside all groups; this group is empty if rows are counted.
  class Cursor {
   public:
    using Count = std::function<u32(u32 rows)>;  // returns the number of blocks in a group of `rows` rows
    Cursor(const GroupSchedule& groups, Count count);

    // Advances to the group that contains block `number`, counted over all groups, or to the last group.
    // Successive calls must not decrease `number`.
    void advance(u32 number);
    // Returns whether block `number` exists. Call advance() with the same number first.
    pred has(u32 number) const { return number - before_.value() < count_.value(); }
    u32 group() const { return group_; }
    u32 number_in_group(u32 number) const { return number - before_.value(); }
    GroupPart part() const { return {begin_, end_}; }

   private:
    const GroupSchedule& groups_;
    Count count_of_;
    Var<u32> group_, begin_, end_, before_, count_;
  };
  // Returns the total number of blocks in all groups.
  u32 total(const Cursor::Count& count) const;

  // Returns the range of k that a group covers.
  GroupPart part_of_k(u32 group) const;

 private:
  u32 end_of(u32 group, u32 begin) const;
  GroupPart part_of_rows(u32 group, u32 end_before) const;
  void announce(u32 round, const Work& work) const;

  GemmTile tile_;
  u32 all_, groups_;
  gptr<s32> sizes_;
  std::optional<u32>
      apart_;  // set if rows are counted: rows from the beginning of one group to the beginning of the next
  Walkers walkers_;
  bool has_parts_;
  Announcements places_;
  std::shared_ptr<bool> announced_ = std::make_shared<bool>(false);
};

}  // namespace ptxbuilder::kernels
