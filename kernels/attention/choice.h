// Chooses the tile of a forward pass without measuring: the fastest measured tile, according to a model.
#pragma once

#include <vector>

#include "kernels/attention/config.h"

namespace ptxbuilder::kernels {

// The size of a call. `queries` and `keys` belong to one head of each batch or, if packed, of the longest
// sequence. `heads` counts the heads of Q in a batch, and every `group` of them share one head of K and V.
struct AttentionSize {
  int64_t queries = 0, keys = 0, heads = 0, batches = 0, group = 1;
  int32_t visible = 0, window_start = 0;  // if the operation has them

  bool operator==(const AttentionSize&) const = default;
};

// Returns how many heads are processed together, with the longest rows of queries first
// (takes_longest_first()): enough heads for keys and values to fill a third of L2. If CTAs stay, there are
// also enough for whole rounds of `ctas`, and every second round goes backwards, so that all CTAs get equal
// work.
int64_t heads_in_wave(const AttentionOperation& operation, const AttentionSize& size,
                      const AttentionTile& tile, int ctas);

// The number of CTAs that divide the keys with a split tile (division.h). key_division() returns the division
// that finishes first on `multiprocessors` SMs if all sequences are as long as the longest one.
struct KeyDivision {
  int64_t teams = 1, parts = 1;
  int64_t ctas() const { return teams * parts; }
};
KeyDivision key_division(const AttentionOperation& operation, const AttentionSize& size,
                         const AttentionTile& tile, int multiprocessors);

// Returns the tiles that the operation allows and for which there are enough registers.
std::vector<AttentionTile> attention_candidates(const AttentionOperation& operation,
                                                const AttentionSize& size);

// Returns the tiles that are worth measuring for one call: first the chosen tile, then the eleven others with
// the least predicted time among the measured tiles and attention_candidates().
std::vector<AttentionTile> attention_tiles_to_measure(const AttentionOperation& operation,
                                                      const AttentionSize& size, int multiprocessors,
                                                      const AttentionTile& chosen);
// Returns a hash of measured.def, since another table may offer other tiles.
uint64_t attention_tiles_hash();

// Throws Error if the tile requires whole blocks of keys but the keys do not form whole blocks.
void check_keys(const AttentionTile& tile, const AttentionSize& size, Where where = Where::here());

// Returns the predicted microseconds on an H100 SXM with `multiprocessors` SMs, based on the tile's measured
// time (measured.def) or, if there is none, on that of the most similar tile.
double predict(const AttentionOperation& operation, const AttentionSize& size, const AttentionTile& tile,
               int multiprocessors);

// Returns the measured tile with the least predicted time among those that the operation allows.
AttentionTile choose_attention(const AttentionOperation& operation, const AttentionSize& size,
                               int multiprocessors);

}  // namespace ptxbuilder::kernels
