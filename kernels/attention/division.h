// Divides the keys of all sequences evenly among resident CTAs when the lengths of the sequences are known
// only on the device.
#pragma once

#include "kernels/attention/queue.h"

namespace ptxbuilder::kernels {

// CTAs form teams. With n teams, each team processes every n-th head, so that adjacent CTAs read the same
// keys for adjacent heads. The blocks of keys of a team's heads form a line. They are ordered by sequence,
// within a sequence by block of queries, and within a block of queries by head. The line is cut into pieces
// of equal length, and each CTA of the team processes one piece. Thus many CTAs share a long sequence, and
// one CTA may process many short sequences. If a piece ends within the keys of a head, these keys are divided
// into parts. A CTA processes its piece from the last block to the first. It therefore finishes with the last
// part of a head's keys, to which it adds the parts of previous CTAs; these have stored their parts long ago,
// or finish at the same time. The blocks of queries of a prompt read the same keys. If the CTAs' pieces begin
// at blocks of queries, the CTAs read these keys at about the same time, so that the keys come from memory
// only once. Therefore, a piece that would end within a block of queries is cut off before this block,
// provided that the block is short compared with the piece.
class AttentionDivision {
 public:
  AttentionDivision(const AttentionTile& tile, const AttentionSizes& sizes);

  // Determines this CTA's piece, and announces its work with one lane. All lanes of a warp must call this
  // function.
  void announce(const WorkQueue& queue) const;

 private:
  // Returns the work for a block of queries that begins at a row of a sequence, for a head of this team.
  AttentionWork work(u32 batch, u32 row, u32 head) const;
  u32 rows_of(u32 batch) const;
  // Returns the total number of blocks of keys over the blocks of queries that begin at rows `first`, `first`
  // + `step`, `first` + 2 `step` and so on, below `end`.
  u32 count(const AttentionWork& w, u32 first, u32 end, int step) const;
  // Returns, in lane l, the number of blocks of keys in sequence first + l, or 0 if there is no such
  // sequence. If a sequence has many queries, all lanes share the counting.
  u32 count_of_lane(u32 first) const;

  // An item of the line, such as a sequence, with the numbers of blocks of keys before the item and in it.
  struct Found {
    u32 item, before, count;
  };
  // Finds the item that contains block `place`. count_from(i) must return, in lane l, the number of blocks in
  // item i + l; `counts` is count_from(0).
  Found find(u32 place, u32 items, u32 counts, const std::function<u32(u32)>& count_from) const;

  // A position in the line, as a block of queries and a head. `start` is where its keys begin in the line,
  // and `count` is its number of blocks of keys.
  struct Place {
    u32 batch, row, head, start, count;
  };
  // `of_first` is count_of_lane(0).
  Place place_at(u32 at, u32 of_first) const;
  // Returns whether pieces must not end within a block of queries of this sequence, if the block has `count`
  // blocks of keys.
  pred is_whole(u32 batch, u32 count, u32 piece) const;
  // Returns the actual boundary between two pieces, given the nominal boundary `at`.
  u32 boundary(u32 at, u32 line, u32 piece, u32 of_first) const;

  const AttentionTile& tile_;
  const AttentionSizes& sizes_;
  u32 team_, heads_;  // number of this CTA's team, and number of heads of the team
};

}  // namespace ptxbuilder::kernels
