// Attention, forward, of every mask, depth and tile, as one kernel.
#pragma once

#include <functional>

#include "kernels/attention/config.h"
#include "ptxbuilder/registers/tile.h"
#include "ptxbuilder/tile/parameters.h"

namespace ptxbuilder::kernels {

// This is where a warpgroup's tile of scores is: its first query and key, and of the queries one number a
// row, of the keys one a column. Some lie beyond the last; packed, both count from the sequence's first.
struct ScorePlace {
  u32 batch, head;
  u32 first_query, first_key;
  RegisterTile<s32> query, key;
};

// Scores of the author's.
//   AttentionScore alibi = {
//       .declare = [](Parameters& p) { p.add("slopes", Parameter::Kind::pointer, DType::f32, "of each head");
//       }, .function = [](const RegisterTile<f32>& scores, const ScorePlace& at, const Parameters& p) {
//         const f32 slope = p.get<gptr<f32>>("slopes")[at.head];
//         return scores + astype<f32>(at.key - at.query) * slope;
//       }};
struct AttentionScore {
  // Adds the parameters that the kernel gets after its own.
  std::function<void(Parameters&)> declare = [](Parameters&) {};
  // Takes scale Q K^T, and gives what replaces it; -inf hides a key.
  std::function<RegisterTile<f32>(const RegisterTile<f32>&, const ScorePlace&, const Parameters&)> function =
      nullptr;
  // Takes the gradient of what `function` gave, and scale Q K^T, and gives that of scale Q K^T: what
  // AttentionGradient needs. Where `function` hides a key, the first is 0.
  std::function<RegisterTile<f32>(const RegisterTile<f32>&, const RegisterTile<f32>&, const ScorePlace&,
                                  const Parameters&)>
      gradient = nullptr;

  // This is the gradient of a function that only adds to scores, or hides keys.
  static RegisterTile<f32> gradient_passes(const RegisterTile<f32>& gradient, const RegisterTile<f32>&,
                                           const ScorePlace&, const Parameters&) {
    return gradient;
  }
};

// Parameters, in order: tensor maps Q, K, V and, unless packed, O (columns, rows, heads, batches); f32 *lse,
// if it is wanted, of each head of each batch one for each query; u32 queries and keys, heads (of Q, of a
// batch), batches, and group (heads of Q that share one of K and V); f32 scale, above 0; then, where the
// operation has them, s32 visible, u32 together (see heads_together()), s32 hidden, an f32 for each step of
// attention.def, f32 *sinks, of each head one, u32 *dropout_seed, four numbers (dropout.h), u32 *key_lengths,
// of each batch one, and u32 *block_table, of each batch ceil(keys / page) pages, and K and V then have
// so many rows each; where the page is no multiple of 8, K and V are pointers, and u32 pages and, of K and of
// V, columns and the strides of rows, heads and pages in units of 16 bytes follow; with K and V of e4m3 f32
// *k_scale and *v_scale, and u32 scales, which is how many each has; and of a tile that is split u32 teams
// and parts (AttentionDivision), and f32 *part_sums (AttentionParts). Packed: queries are those of the
// longest sequence, without keys; lse has for each head the queries of all sequences, and in place of the map
// stand O, with u64 row_stride and head_stride in elements, multiples of 8, u32 *query_offsets and
// *key_offsets, batches + 1 of each, and where CTAs stay u32 *order (order.h). Both bounds count from keys -
// queries of a sequence. The score's are the last. `sms`: multiprocessors that the grid is for, where CTAs
// stay; 0 for the device's. Throws Error as check() does.
Kernel attention(const AttentionOperation& operation, const AttentionTile& tile,
                 const AttentionScore& score = {}, int sms = 0, Where where = Where::here());

}  // namespace ptxbuilder::kernels
