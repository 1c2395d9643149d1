// Divides the keys of all sequences evenly among CTAs that stay, where only the device knows the sequences'
// lengths.
#pragma once

#include "kernels/attention/queue.h"

namespace ptxbuilder::kernels {

// CTAs form teams, and with n teams, a team processes every n-th head, so that adjacent CTAs read the same
// keys of adjacent heads. The blocks of keys of a team's heads form a line: sequence after sequence, within a
// sequence block of queries after block of queries, and within such a block head after head. Each CTA of the
// team processes the next piece of the line. All pieces have the same length, so that many CTAs share a long
// sequence, and one CTA processes many short sequences. If a piece ends within a head's keys, the head is
// divided into parts. A CTA processes its piece from the last block to the first, so that it finishes with
// the last part of a head's keys: it adds the parts of the previous CTAs, which have stored them long ago or
// finish at the same time. The blocks of queries of a prompt read the same keys. CTAs that begin with whole
// blocks of queries read these keys at about the same time, so that they come from memory only once.
// Therefore, if such a block is short compared with a piece, the piece ends before the block rather than
// within it.
class AttentionDivision {
 public:
  AttentionDivision(const AttentionTile& tile, const AttentionSizes& sizes);

  // Finds where this CTA's piece ends, and announces its work in one lane. All lanes of a warp must call
  // this.
  void announce(const WorkQueue& queue) const;

 private:
  // Returns the work at a row of a sequence, for a head of this team.
  AttentionWork work(u32 batch, u32 row, u32 head) const;
  u32 rows_of(u32 batch) const;
  // Returns the number of blocks of keys for every step-th row of a sequence in [first, end).
  u32 count(const AttentionWork& w, u32 first, u32 end, int step) const;
  // Returns for each lane the number of blocks of keys of its sequence, where sequences are counted from
  // `first`, or 0 after the last sequence. If a sequence has many queries, all lanes share the counting.
  u32 count_of_lane(u32 first) const;

  // An item of a line, such as a sequence, with the number of blocks of keys before it and in it.
  struct Found {
    u32 item, before, count;
  };
  // Finds the item that contains block `place`. count_from() returns for each lane the number of blocks of
  // its item, where items are counted from its argument; `counts` is what it returns for 0.
  Found find(u32 place, u32 items, u32 counts, const std::function<u32(u32)>& count_from) const;

  // The position in the line of the keys of a block of queries for one head: the head, where the keys start,
  // and how many blocks of keys there are.
  struct Place {
    u32 batch, row, head, start, count;
  };
  // `of_first` is count_of_lane(0).
  Place place_at(u32 at, u32 of_first) const;
  // Returns whether no piece ends within a block of queries of this sequence that has `count` blocks of keys.
  pred is_whole(u32 batch, u32 count, u32 piece) const;
  // Returns where a piece ends or begins whose nominal boundary is `at`.
  u32 boundary(u32 at, u32 line, u32 piece, u32 of_first) const;

  const AttentionTile& tile_;
  const AttentionSizes& sizes_;
  u32 team_, heads_;  // number of this CTA's team; heads of the team
};

}  // namespace ptxbuilder::kernels
