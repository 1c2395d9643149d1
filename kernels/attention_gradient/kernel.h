// Builds the kernels of attention's backward pass. There are three kernels, launched one after the other, and
// a fourth if heads have sinks:
//
//   attention_gradient_sums      for each row of queries: sum(dO * O), lse as a base-2 logarithm, and zeros
//                                for the sums of dQ
//   attention_gradient           dK and dV of a block of keys, and the block's addends to the sums of dQ
//   attention_gradient_queries   dQ from its sums
//   attention_gradient_sinks     the gradients of sinks
//
// S^T = K Q^T and dP^T = V dO^T are computed in transposed form. P^T and dS^T are then already in registers
// as operand A of dV += P^T dO and dK += dS^T Q, and dS passes through shared memory only for dQ (Shah and
// others, FlashAttention-3).
#pragma once

#include "kernels/attention/kernel.h"
#include "kernels/attention_gradient/config.h"
#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder::kernels {

// Returns how many rows a head has in the arrays that the kernels share. Rows are padded to whole blocks of
// queries.
inline int64_t padded_queries(const AttentionGradientTile& tile, int64_t queries) {
  return (queries + tile.bm - 1) / tile.bm * tile.bm;
}

// Returns how many counters determine the order of additions to the sums of `rows` rows.
inline int64_t count_of_turns(const AttentionGradientTile& tile, int64_t rows) {
  return rows / tile.bm * tile.kConsumers;
}

// Returns the kernel of dK and dV. Its parameters are, in order:
// - tensor maps Q, K, V, dO, dK and dV (columns, padded with zeros; rows; heads; batches);
// - f32 *numbers, which holds two numbers for each query in each block of queries of each head of each batch;
// - f32 *dq, which holds `depth` sums for each of these queries, in the order of GradientFragments;
// - u32 queries and keys, and group (query heads that share a head of K and V);
// - f32 scale;
// - as far as the operation needs them: s32 visible, s32 window_start, an f32 for each step of attention.def,
//   u32 *dropout_seed (four numbers), and u32 *turns (a zero for each consumer of each block of queries);
// - if packed, u32 batches (sequences) and query_rows, u32 *query_offsets and *key_offsets, and for each of
//   dK and dV a pointer, u32 columns, and u64 row_stride and head_stride in elements, all multiples of 8;
// - the parameters of `score`.
// If packed, the maps dK and dV and `queries` are omitted, and `keys` is the length of the longest sequence.
// Throws an Error if check() would.
Kernel attention_gradient(const AttentionGradientOperation& operation, const AttentionGradientTile& tile,
                          const AttentionScore& score = {}, Where where = Where::here());

// Returns the kernel that computes the two numbers for each query. Its parameters are, in order:
// - tensor maps O and dO;
// - f32 *lse, with a number for each query of each head of each batch;
// - f32 *numbers and f32 *dq, as for attention_gradient(); the kernel writes both;
// - u32 queries, heads (heads of a batch) and batches; if packed, `queries` is the length of the longest
//   sequence, and u32 query_rows and u32 *query_offsets follow `batches`;
// - if lse has a gradient, f32 *lse_grad, which has the shape of lse;
// - if the operation is deterministic, u32 *turns, which the kernel sets to 0.
Kernel attention_gradient_sums(const AttentionGradientOperation& operation, const AttentionGradientTile& tile,
                               Where where = Where::here());

// Returns the kernel that computes dQ from its sums. Its parameters are, in order: f32 *dq, as for
// attention_gradient(); the tensor map dQ; u32 queries, heads and batches; f32 scale. If packed, the map is
// omitted, the sizes are those of attention_gradient_sums(), and the parameters of dQ come last, in the form
// of those of dK in attention_gradient().
Kernel attention_gradient_queries(const AttentionGradientOperation& operation,
                                  const AttentionGradientTile& tile, Where where = Where::here());

// Returns the kernel that computes the gradients of sinks. Its parameters are, in order: f32 *numbers, as for
// attention_gradient(); f32 *sinks, a number for each head; f32 *dsinks, which the kernel writes; and the
// sizes of attention_gradient_sums().
Kernel attention_gradient_sinks(const AttentionGradientOperation& operation,
                                const AttentionGradientTile& tile, Where where = Where::here());

}  // namespace ptxbuilder::kernels
