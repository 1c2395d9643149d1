// Chooses the tile of a forward pass without measuring: among the tiles of measured.def, the one with the
// shortest predicted time.
#pragma once

#include <vector>

#include "kernels/attention/config.h"

namespace ptxbuilder::kernels {

// The size of a call. `queries` and `keys` are the rows of one head in each batch or, if packed, in the
// longest sequence. `heads` is the number of heads of Q in a batch, and `group` is the number of heads of Q
// that share a head of K and V.
struct AttentionSize {
  int64_t queries = 0, keys = 0, heads = 0, batches = 0, group = 1;
  int32_t visible = 0, window_start = 0;  // used if the operation has these masks

  bool operator==(const AttentionSize&) const = default;
};

// Returns how many heads are processed together if the longest blocks of queries come first
// (takes_longest_first()). If CTAs are persistent, there are enough heads for complete rounds of `ctas` CTAs;
// since every second round runs backwards, all CTAs get equal amounts of work. Otherwise, there are as many
// heads as have keys and values that fill a third of L2.
int64_t heads_in_wave(const AttentionOperation& operation, const AttentionSize& size,
                      const AttentionTile& tile, int ctas);

// The numbers of teams, and of CTAs in a team (`parts`), that divide the keys if the tile is split
// (division.h). key_division() returns the division that is fastest on `multiprocessors` SMs if all sequences
// are as long as the longest sequence.
struct KeyDivision {
  int64_t teams = 1, parts = 1;
  int64_t ctas() const { return teams * parts; }
};
KeyDivision key_division(const AttentionOperation& operation, const AttentionSize& size,
                         const AttentionTile& tile, int multiprocessors);

// Returns the tiles that the operation allows and that fit in the registers.
std::vector<AttentionTile> attention_candidates(const AttentionOperation& operation,
                                                const AttentionSize& size);

// Returns the tiles worth measuring for a call, which are the chosen tile and the eleven other tiles with the
// shortest predicted times among those of measured.def and attention_candidates().
std::vector<AttentionTile> attention_tiles_to_measure(const AttentionOperation& operation,
                                                      const AttentionSize& size, int multiprocessors,
                                                      const AttentionTile& chosen);
// Returns a hash of measured.def. It identifies the table, since another table may propose other tiles.
uint64_t attention_tiles_hash();

// Throws an Error if the tile requires a number of keys that is a multiple of a block, but `size` has another
// number of keys.
void check_keys(const AttentionTile& tile, const AttentionSize& size, Where where = Where::here());

// Returns the predicted time in microseconds on an H100 SXM with `multiprocessors` SMs. It is based on the
// times of the tile in measured.def or, if the tile is not listed, on those of the most similar tile.
double predict(const AttentionOperation& operation, const AttentionSize& size, const AttentionTile& tile,
               int multiprocessors);

// Returns the tile with the shortest predicted time among the tiles of measured.def that the operation
// allows.
AttentionTile choose_attention(const AttentionOperation& operation, const AttentionSize& size,
                               int multiprocessors);

}  // namespace ptxbuilder::kernels
