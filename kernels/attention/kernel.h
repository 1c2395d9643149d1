// The kernel of attention's forward pass, for every mask, depth and tile.
#pragma once

#include <functional>

#include "kernels/attention/config.h"
#include "ptxbuilder/registers/tile.h"
#include "ptxbuilder/tile/parameters.h"

namespace ptxbuilder::kernels {

// The position of a warpgroup's tile of scores: its first query and key, each row's query and each column's
// key. Some may be after the last one. If packed, both are counted from the sequence's first.
struct ScorePlace {
  u32 batch, head;
  u32 first_query, first_key;
  RegisterTile<s32> query, key;
};

// The user's own scores, for example:
//   AttentionScore alibi = {
//       .declare =
//           [](Parameters& p) { p.add("slopes", Parameter::Kind::pointer, DType::f32, "one for each head");
//           },
//       .function =
//           [](const RegisterTile<f32>& scores, const ScorePlace& at, const Parameters& p) {
//             const f32 slope = p.get<gptr<f32>>("slopes")[at.head];
//             return scores + astype<f32>(at.key - at.query) * slope;
//           }};
struct AttentionScore {
  // Adds the parameters that follow the kernel's own parameters.
  std::function<void(Parameters&)> declare = [](Parameters&) {};
  // Returns the score that replaces scale Q K^T, its first argument; -inf hides a key.
  std::function<RegisterTile<f32>(const RegisterTile<f32>&, const ScorePlace&, const Parameters&)> function =
      nullptr;
  // Returns the gradient of scale Q K^T, which AttentionGradient needs, from the gradient of the result of
  // `function` and from scale Q K^T. If `function` hides a key, the first argument is 0.
  std::function<RegisterTile<f32>(const RegisterTile<f32>&, const RegisterTile<f32>&, const ScorePlace&,
                                  const Parameters&)>
      gradient = nullptr;

  // Returns the gradient of a function that only adds to scores or hides keys.
  static RegisterTile<f32> gradient_passes(const RegisterTile<f32>& gradient, const RegisterTile<f32>&,
                                           const ScorePlace&, const Parameters&) {
    return gradient;
  }
};

// Returns the kernel of a forward pass. Its parameters are, in order:
// - tensor maps Q, K, V and O (columns, rows, heads, batches); V is absent if it is the first columns of K,
//   and O if packed;
// - f32 *lse, if requested, with a number for each query of each head of each batch;
// - u32 queries and keys, heads (heads of Q in a batch), batches, and group (heads of Q that share a head of
//   K and V);
// - f32 scale, above 0;
// - if the operation has them, s32 visible, u32 heads_in_wave (see heads_in_wave()), s32 window_start, an f32
//   for each step of attention.def, f32 *sinks (one for each head), u32 *dropout_seed (four numbers, see
//   dropout.h), u32 *key_lengths (one for each batch), and u32 *tree_mask (one for each query of each batch,
//   see QueryTree);
// - with pages, u32 *block_table, with ceil(keys / page) pages for each batch, and u32 table_stride, the
//   distance between batches; K and V then have `page` rows each, and are pointers if the page is not a
//   multiple of 8;
// - u32 pages, if pages have scales or K and V are pointers; and if they are pointers, for each of them the
//   columns, and the strides of rows, heads and pages in units of 16 bytes;
// - u32 promote, if sums are promoted; f32 *q_scale, if Q is e4m3; f32 *k_scale and *v_scale, and u32 scales,
//   the number of scales in each or, with scales of pages, for each page, if K and V are e4m3;
// - with a split tile, u32 teams and parts (AttentionDivision), and f32 *part_sums (AttentionParts);
// - if packed, O (a pointer), u64 row_stride and head_stride in elements, multiples of 8, u32 *query_offsets
//   and, without lengths, *key_offsets, with batches + 1 numbers each, and if CTAs stay u32 *order (order.h);
// - the parameters of `score`.
// If packed, queries are those of the longest sequence, keys are omitted unless there are lengths, and lse
// holds for each head the queries of all sequences. Both bounds then count from keys - queries of a sequence.
// `sms` is the number of multiprocessors that the grid is made for if CTAs stay; 0 means the device's. Throws
// Error as check() does.
Kernel attention(const AttentionOperation& operation, const AttentionTile& tile,
                 const AttentionScore& score = {}, int sms = 0, Where where = Where::here());

}  // namespace ptxbuilder::kernels
