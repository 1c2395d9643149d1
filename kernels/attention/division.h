// CTAs stay, and divide the keys of all sequences evenly; only the device knows their lengths.
#pragma once

#include "kernels/attention/queue.h"

namespace ptxbuilder::kernels {

// CTAs form teams, and a team takes every teams-th head, so that adjacent CTAs read the same keys of adjacent
// heads. The blocks of keys of a team's heads form a line, batch after batch, and head after head within each
// batch. Each CTA of the team takes the next piece of the line, all pieces being of one length, so that a
// long sequence is shared by many CTAs, and a CTA takes many short sequences.
//
// If a piece ends within a head's keys, the head is divided into parts. A CTA goes through its piece from the
// last block to the first, so that it finishes with the last part of a head's keys: it adds the parts of the
// CTAs before it, which have stored them long ago or finish at the same time.
class AttentionDivision {
 public:
  AttentionDivision(const AttentionTile& tile, const AttentionSizes& sizes);

  // All lanes of a warp call this. They find where this CTA's piece ends, and one lane announces its work.
  void announce(const WorkQueue& queue) const;

 private:
  // The rows of blocks of queries are numbered batch by batch.
  AttentionWork work_of_rows(u32 row, u32 head) const;
  KeyBlocks blocks_of_rows(u32 row) const { return {tile_, work_of_rows(row, 0)}; }
  // Returns for each lane the blocks of its row, with rows counted from `first`, or 0 after the last row.
  u32 count_of_lane(u32 first) const;

  const AttentionTile& tile_;
  const AttentionSizes& sizes_;
  u32 blocks_, rows_;  // of queries of a batch, and of all
  u32 team_, heads_;   // of this CTA, and of its team
};

}  // namespace ptxbuilder::kernels
