// This chooses a pass's tile without measuring: the fastest by a model of those that were measured.
#pragma once

#include <vector>

#include "kernels/attention/config.h"

namespace ptxbuilder::kernels {

// `queries` and `keys` of a head of each batch; packed, of the longest sequence. `heads` are of Q, of a
// batch, and `group` of them share one of K and V.
struct AttentionSize {
  int64_t queries = 0, keys = 0, heads = 0, batches = 0, group = 1;
  int32_t visible = 0, hidden = 0;  // where the operation has them

  bool operator==(const AttentionSize&) const = default;
};

// So many heads' longest rows of queries come first (takes_longest_first()): as many as have keys and
// values of a third of L2; where CTAs stay, as make whole rounds of `ctas`: every second round goes
// backwards, so that each CTA gets as much as any other.
int64_t heads_together(const AttentionOperation& operation, const AttentionSize& size,
                       const AttentionTile& tile, int ctas);

// It says among how many CTAs a tile that is split divides the keys (division.h). They are as many as end
// first on so many multiprocessors, where all sequences are as long as the longest.
struct KeyDivision {
  int64_t teams = 1, parts = 1;
  int64_t ctas() const { return teams * parts; }
};
KeyDivision key_division(const AttentionOperation& operation, const AttentionSize& size,
                         const AttentionTile& tile, int multiprocessors);

// Tiles that the operation allows and whose registers suffice.
std::vector<AttentionTile> attention_candidates(const AttentionOperation& operation,
                                                const AttentionSize& size);

// Gives the tiles that are worth measuring for one call: the chosen one first, and the eleven others with the
// least prediction of those that were measured and of attention_candidates().
std::vector<AttentionTile> attention_tiles_to_measure(const AttentionOperation& operation,
                                                      const AttentionSize& size, int multiprocessors,
                                                      const AttentionTile& chosen);
// A number that follows from measured.def: another table may offer other tiles.
uint64_t attention_tiles_hash();

// Throws Error for a tile of whole blocks where the keys are none.
void check_keys(const AttentionTile& tile, const AttentionSize& size, Where where = Where::here());

// Microseconds on an H100 SXM with `multiprocessors` SMs, from what its tile takes (measured.def), else the
// tile most alike.
double predict(const AttentionOperation& operation, const AttentionSize& size, const AttentionTile& tile,
               int multiprocessors);

// The measured tile with the least prediction, of those that the operation allows.
AttentionTile choose_attention(const AttentionOperation& operation, const AttentionSize& size,
                               int multiprocessors);

}  // namespace ptxbuilder::kernels
