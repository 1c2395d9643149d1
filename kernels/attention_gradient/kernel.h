// Attention's backward pass is three kernels, launched one after the other, or four if heads have sinks.
//
//   attention_gradient_sums for each row of queries sum(dO * O), its lse in powers of two, and zeros
//   attention_gradient dK and dV of a block of keys, and what it adds to dQ's sums attention_gradient_queries
//   dQ from its sums
//
// S^T = K Q^T and dP^T = V dO^T are multiplied transposed, so that registers hold P^T and dS^T in the form
// that dV += P^T dO and dK += dS^T Q need for A; dS goes through shared memory only for dQ (Shah and others,
// FlashAttention-3).
#pragma once

#include "kernels/attention/kernel.h"
#include "kernels/attention_gradient/config.h"
#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder::kernels {

// Returns the rows of a head in the arrays that the three kernels share: whole blocks of queries.
inline int64_t padded_queries(const AttentionGradientTile& tile, int64_t queries) {
  return (queries + tile.bm - 1) / tile.bm * tile.bm;
}

// Returns how many numbers record whose turn it is to add to the sums of `rows` rows.
inline int64_t count_of_turns(const AttentionGradientTile& tile, int64_t rows) {
  return rows / tile.bm * tile.kConsumers;
}

// Parameters, in order: tensor maps Q, K, V, dO, dK and dV (columns, with 0 after the last, rows, heads,
// batches); f32 *numbers, two for each query in each block of queries of each head of each batch; f32 *dq,
// with `depth` sums for each of these rows, in the order of the registers that add to them; u32 queries and
// keys, group (heads of Q that share one of K and V); f32 scale; then, if the operation has them, s32
// visible, s32 window_start, an f32 for each step of attention.def, u32 *dropout_seed, four numbers, and u32
// *turns, zeros, one for each consumer of each block of queries. Packed: dK, dV and queries are omitted, and
// keys are those of the longest sequence; after the others come u32 batches (sequences) and query_rows, u32
// *query_offsets and *key_offsets, and for dK and dV each a pointer, u32 columns, and u64 row_stride and
// head_stride in elements, all multiples of 8. The score's parameters are last. Throws Error as check()
// does.
Kernel attention_gradient(const AttentionGradientOperation& operation, const AttentionGradientTile& tile,
                          const AttentionScore& score = {}, Where where = Where::here());

// Parameters, in order: tensor maps O and dO; f32 *lse, one number for each query of each head of each batch;
// f32 *numbers and *dq as above, which are written; u32 queries, heads (of a batch), and batches; f32
// *lse_grad, like lse, if it is given, and u32 *turns, which are written, if it is deterministic. Packed:
// queries are those of the longest sequence, and u32 query_rows and u32 *query_offsets follow batches.
Kernel attention_gradient_sums(const AttentionGradientOperation& operation, const AttentionGradientTile& tile,
                               Where where = Where::here());

// Parameters, in order: f32 *dq as above; the tensor map dQ; u32 queries, heads and batches; f32 scale.
// Packed: the map is omitted, sizes are those of attention_gradient_sums, and dQ comes last, in the form of
// dK in attention_gradient.
Kernel attention_gradient_queries(const AttentionGradientOperation& operation,
                                  const AttentionGradientTile& tile, Where where = Where::here());

// Parameters, in order: f32 *numbers as above; f32 *sinks, one for each head, and f32 *dsinks, which is
// written; and the sizes of attention_gradient_sums.
Kernel attention_gradient_sinks(const AttentionGradientOperation& operation,
                                const AttentionGradientTile& tile, Where where = Where::here());

}  // namespace ptxbuilder::kernels
