// CTAs stay, and divide the keys of all sequences evenly, whose lengths the device alone knows.
#pragma once

#include "kernels/attention/queue.h"

namespace ptxbuilder::kernels {

// CTAs are in teams, and a team has every teams-th head, so that adjacent CTAs read the same keys of adjacent
// heads. The blocks of keys of a team's heads are a line, batch after batch, and head after head of each
// batch. Each CTA of the team takes the next piece of the line, all of one length, so that a
// long sequence is shared by many CTAs, and a CTA has many short ones.
//
// Where a piece ends within a head's keys, those are in parts. A CTA goes through its piece from the last
// block to the first, so that the last part of a head's keys is what its CTA ends with: it adds the parts of
// the CTAs before it, which have left them long ago, or end at the same time.
class AttentionDivision {
 public:
  AttentionDivision(const AttentionTile& tile, const AttentionSizes& sizes);

  // All lanes of a warp come here. They find where this CTA's piece ends, and one announces what is in it.
  void announce(const WorkQueue& queue) const;

 private:
  // A row of blocks of queries counts the rows of one batch, then those of the next.
  AttentionWork work_of_rows(u32 row, u32 head) const;
  KeyBlocks blocks_of_rows(u32 row) const { return {tile_, work_of_rows(row, 0)}; }
  // It gives each lane the blocks of its row of those from `first` on, or 0 beyond the last.
  u32 count_of_lane(u32 first) const;

  const AttentionTile& tile_;
  const AttentionSizes& sizes_;
  u32 blocks_, rows_;  // of queries of a batch, and of all
  u32 team_, heads_;   // of this CTA, and of its team
};

}  // namespace ptxbuilder::kernels
