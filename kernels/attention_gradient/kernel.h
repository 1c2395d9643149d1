// Attention's backward pass consists of three kernels, launched one after the other, or of four if heads have
// sinks:
//
//   attention_gradient_sums      for each row of queries: sum(dO * O), its lse as a base-2 logarithm, and
//   zeros
//   attention_gradient           dK and dV of a block of keys, and what the block adds to dQ's sums
//   attention_gradient_queries   dQ from its sums
//   attention_gradient_sinks     the gradients of sinks
//
// S^T = K Q^T and dP^T = V dO^T are computed in transposed form, so that registers hold P^T and dS^T as the
// operand A that dV += P^T dO and dK += dS^T Q require; dS goes through shared memory only for dQ (Shah and
// others, FlashAttention-3).
#pragma once

#include "kernels/attention/kernel.h"
#include "kernels/attention_gradient/config.h"
#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder::kernels {

// Returns the rows of a head in the arrays that the kernels share, which are whole blocks of queries.
inline int64_t padded_queries(const AttentionGradientTile& tile, int64_t queries) {
  return (queries + tile.bm - 1) / tile.bm * tile.bm;
}

// Returns how many counters record whose turn it is to add to the sums of `rows` rows.
inline int64_t count_of_turns(const AttentionGradientTile& tile, int64_t rows) {
  return rows / tile.bm * tile.kConsumers;
}

// Returns the kernel of dK and dV. Its parameters are, in order:
// - tensor maps Q, K, V, dO, dK and dV (columns, with 0 after the last one, rows, heads, batches);
// - f32 *numbers, two for each query in each block of queries of each head of each batch;
// - f32 *dq, with `depth` sums for each of these rows, in the order of the registers that are added to them;
// - u32 queries and keys, and group (query heads that share a head of K and V);
// - f32 scale;
// - if the operation has them, s32 visible, s32 window_start, an f32 for each step of attention.def, u32
//   *dropout_seed (four numbers), and u32 *turns (zeros, one for each consumer of each block of queries);
// - if packed, u32 batches (sequences) and query_rows, u32 *query_offsets and *key_offsets, and for each of
//   dK and dV a pointer, u32 columns, and u64 row_stride and head_stride in elements, all multiples of 8;
// - the parameters of `score`.
// If packed, the maps of dK and dV and queries are omitted, and keys are those of the longest sequence.
// Throws Error as check() does.
Kernel attention_gradient(const AttentionGradientOperation& operation, const AttentionGradientTile& tile,
                          const AttentionScore& score = {}, Where where = Where::here());

// Returns the kernel of the sums. Its parameters are, in order:
// - tensor maps O and dO;
// - f32 *lse, with a number for each query of each head of each batch;
// - f32 *numbers and *dq as above, which are written;
// - u32 queries, heads (heads of a batch) and batches; if packed, queries are those of the longest sequence,
//   and u32 query_rows and u32 *query_offsets follow batches;
// - f32 *lse_grad, with the shape of lse, if lse has a gradient;
// - u32 *turns, which are written, if the operation is deterministic.
Kernel attention_gradient_sums(const AttentionGradientOperation& operation, const AttentionGradientTile& tile,
                               Where where = Where::here());

// Returns the kernel of dQ. Its parameters are, in order: f32 *dq as above; the tensor map dQ; u32 queries,
// heads and batches; f32 scale. If packed, the map is omitted, sizes are those of attention_gradient_sums,
// and dQ comes last, in the form that dK has in attention_gradient.
Kernel attention_gradient_queries(const AttentionGradientOperation& operation,
                                  const AttentionGradientTile& tile, Where where = Where::here());

// Returns the kernel of the gradients of sinks. Its parameters are, in order: f32 *numbers as above; f32
// *sinks, with one number for each head; f32 *dsinks, which is written; and the sizes of
// attention_gradient_sums.
Kernel attention_gradient_sinks(const AttentionGradientOperation& operation,
                                const AttentionGradientTile& tile, Where where = Where::here());

}  // namespace ptxbuilder::kernels
