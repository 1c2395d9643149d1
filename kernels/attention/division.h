// CTAs stay, and divide the keys of all sequences evenly; only the device knows their lengths.
#pragma once

#include "kernels/attention/queue.h"

namespace ptxbuilder::kernels {

// CTAs form teams, and a team takes every teams-th head, so that adjacent CTAs read the same keys of adjacent
// heads. The blocks of keys of a team's heads form a line: sequence after sequence, block of queries after
// block of queries within a sequence, and head after head within such a block. Each CTA of the team takes the
// next piece of the line, all pieces being of one length, so that a long sequence is shared by many CTAs, and
// a CTA takes many short sequences.
//
// If a piece ends within a head's keys, the head is divided into parts. A CTA goes through its piece from the
// last block to the first, so that it finishes with the last part of a head's keys: it adds the parts of the
// CTAs before it, which have stored them long ago or finish at the same time.
//
// The blocks of queries of a prompt read the same keys. CTAs that begin with whole blocks of queries read
// them at about the same time, and so once from memory: where such a block is short next to a piece, the
// piece ends before it rather than within it.
class AttentionDivision {
 public:
  AttentionDivision(const AttentionTile& tile, const AttentionSizes& sizes);

  // All lanes of a warp call this. They find where this CTA's piece ends, and one lane announces its work.
  void announce(const WorkQueue& queue) const;

 private:
  // Returns the work at a row of a sequence, for a head of this team.
  AttentionWork work(u32 batch, u32 row, u32 head) const;
  u32 rows_of(u32 batch) const;
  // Returns the blocks of keys of every step-th row of a sequence, in [first, end).
  u32 count(const AttentionWork& w, u32 first, u32 end, int step) const;
  // Returns for each lane the blocks of keys of its sequence, with sequences counted from `first`, or 0 after
  // the last. All lanes share the count of a sequence of many queries.
  u32 count_of_lane(u32 first) const;

  // An item of a line, such as a sequence, with the blocks of keys before it and of its own.
  struct Found {
    u32 item, before, count;
  };
  // Finds the item with the block at `place`; count_from() returns for each lane the blocks of its item, with
  // items counted from its argument, and `counts` is what it returns for 0.
  Found find(u32 place, u32 items, u32 counts, const std::function<u32(u32)>& count_from) const;

  // The head of a block of queries whose keys have a place in the line, where they start, and how many blocks
  // of keys there are.
  struct Place {
    u32 batch, row, head, start, count;
  };
  // `of_first` is count_of_lane(0).
  Place place_at(u32 at, u32 of_first) const;
  // Returns whether no piece ends within a block of queries of this sequence with so many blocks of keys.
  pred is_whole(u32 batch, u32 count, u32 piece) const;
  // Returns where a piece ends or begins that should do so at `at`.
  u32 boundary(u32 at, u32 line, u32 piece, u32 of_first) const;

  const AttentionTile& tile_;
  const AttentionSizes& sizes_;
  u32 team_, heads_;  // of this CTA, and of its team
};

}  // namespace ptxbuilder::kernels
