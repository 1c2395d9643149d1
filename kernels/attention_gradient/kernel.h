// Attention, backward, as three kernels, launched one behind the other, or four where heads have sinks.
//
//   attention_gradient_sums     of each row of queries sum(dO * O), its lse in powers of two, and zeros
//   attention_gradient          dK and dV of a block of keys, and what it adds to dQ's sums
//   attention_gradient_queries  dQ of its sums
//
// S^T = K Q^T and dP^T = V dO^T are multiplied transposed, so that P^T and dS^T are in registers what dV +=
// P^T dO and dK += dS^T Q take as A; dS goes through shared memory alone, for dQ (Shah and others,
// FlashAttention-3).
#pragma once

#include "kernels/attention/kernel.h"
#include "kernels/attention_gradient/config.h"
#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder::kernels {

// Rows of a head in the arrays that the three kernels share: whole blocks of queries.
inline int64_t padded_queries(const AttentionGradientTile& tile, int64_t queries) {
  return (queries + tile.bm - 1) / tile.bm * tile.bm;
}

// So many numbers tell whose turn it is to add to the sums of so many rows.
inline int64_t count_of_turns(const AttentionGradientTile& tile, int64_t rows) {
  return rows / tile.bm * tile.kConsumers;
}

// Parameters, in order: tensor maps Q, K, V, dO, dK and dV (columns, of which those behind the last count as
// 0, rows, heads, batches); f32 *numbers, of each block of queries of each head of each batch two for each
// query; f32 *dq, of each of these rows `depth` sums, in the order of the registers that add to them; u32
// queries and keys, group (heads of Q that share one of K and V); f32 scale; then, where the operation has
// them, s32 visible, s32 hidden, an f32 for each step of attention.def, u32 *dropout_seed, four numbers, and
// u32 *turns, of which each block of queries has one for each consumer, zeros. Packed: without dK, dV and
// queries, and keys are those of the longest sequence; behind the others u32 batches (sequences) and
// query_rows, u32 *query_offsets and *key_offsets, and of dK and dV each a pointer, u32 columns, and u64
// row_stride and head_stride in elements, all multiples of 8. The score's are the last. Throws Error as
// check() does.
Kernel attention_gradient(const AttentionGradientOperation& operation, const AttentionGradientTile& tile,
                          const AttentionScore& score = {}, Where where = Where::here());

// Parameters, in order: tensor maps O and dO; f32 *lse, of each head of each batch one for each query; f32
// *numbers and *dq as above, which are written; u32 queries, heads (of a batch), and batches; f32
// *lse_grad, as lse, if it is given, and u32 *turns, which are written, if it is deterministic. Packed:
// queries are those of the longest sequence, and behind batches stand u32 query_rows and u32 *query_offsets.
Kernel attention_gradient_sums(const AttentionGradientOperation& operation, const AttentionGradientTile& tile,
                               Where where = Where::here());

// Parameters, in order: f32 *dq as above; the tensor map dQ; u32 queries, heads and batches; f32 scale.
// Packed: without the map, sizes as of attention_gradient_sums, and dQ behind all, as dK of
// attention_gradient.
Kernel attention_gradient_queries(const AttentionGradientOperation& operation,
                                  const AttentionGradientTile& tile, Where where = Where::here());

// Parameters, in order: f32 *numbers as above; f32 *sinks, of each head, and f32 *dsinks, which is written;
// and the sizes as attention_gradient_sums has them.
Kernel attention_gradient_sinks(const AttentionGradientOperation& operation,
                                const AttentionGradientTile& tile, Where where = Where::here());

}  // namespace ptxbuilder::kernels
