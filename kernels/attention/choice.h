// This file chooses a pass's tile without measuring: the fastest measured tile according to a model.
#pragma once

#include <vector>

#include "kernels/attention/config.h"

namespace ptxbuilder::kernels {

// `queries` and `keys` belong to one head of each batch; if packed, to the longest sequence. `heads` counts
// the heads of Q in a batch, and `group` of them share one head of K and V.
struct AttentionSize {
  int64_t queries = 0, keys = 0, heads = 0, batches = 0, group = 1;
  int32_t visible = 0, window_start = 0;  // if the operation has them

  bool operator==(const AttentionSize&) const = default;
};

// Returns how many heads' longest rows of queries come first (takes_longest_first()): enough heads for keys
// and values to fill a third of L2; if CTAs stay, enough for whole rounds of `ctas`: every second round goes
// backwards, so that all CTAs get equal work.
int64_t heads_in_wave(const AttentionOperation& operation, const AttentionSize& size,
                      const AttentionTile& tile, int ctas);

// A division says among how many CTAs a split tile divides the keys (division.h). key_division() returns the
// one that finishes first on `multiprocessors`, if all sequences are as long as the longest.
struct KeyDivision {
  int64_t teams = 1, parts = 1;
  int64_t ctas() const { return teams * parts; }
};
KeyDivision key_division(const AttentionOperation& operation, const AttentionSize& size,
                         const AttentionTile& tile, int multiprocessors);

// Returns the tiles that the operation allows and that have enough registers.
std::vector<AttentionTile> attention_candidates(const AttentionOperation& operation,
                                                const AttentionSize& size);

// Returns the tiles that are worth measuring for one call: the chosen one first, then the eleven others with
// the least predicted time among the measured tiles and attention_candidates().
std::vector<AttentionTile> attention_tiles_to_measure(const AttentionOperation& operation,
                                                      const AttentionSize& size, int multiprocessors,
                                                      const AttentionTile& chosen);
// Returns a hash of measured.def: with another table, other tiles may be offered.
uint64_t attention_tiles_hash();

// Throws Error if the tile takes only whole blocks and the keys are not whole blocks.
void check_keys(const AttentionTile& tile, const AttentionSize& size, Where where = Where::here());

// Returns the predicted microseconds on an H100 SXM with `multiprocessors` SMs, from the measured time of the
// tile (measured.def) or, if it has none, of the most similar tile.
double predict(const AttentionOperation& operation, const AttentionSize& size, const AttentionTile& tile,
               int multiprocessors);

// Returns the measured tile with the least predicted time among those that the operation allows.
AttentionTile choose_attention(const AttentionOperation& operation, const AttentionSize& size,
                               int multiprocessors);

}  // namespace ptxbuilder::kernels
