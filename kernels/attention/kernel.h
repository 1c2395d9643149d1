// One kernel computes attention's forward pass with every mask, depth and tile.
#pragma once

#include <functional>

#include "kernels/attention/config.h"
#include "ptxbuilder/registers/tile.h"
#include "ptxbuilder/tile/parameters.h"

namespace ptxbuilder::kernels {

// The position of a warpgroup's tile of scores: its first query and key, each row's query and each column's
// key. Some may be after the last; if packed, both count from the sequence's first.
struct ScorePlace {
  u32 batch, head;
  u32 first_query, first_key;
  RegisterTile<s32> query, key;
};

// The author's own scores, for example:
//   AttentionScore alibi = {
//       .declare = [](Parameters& p) { p.add("slopes", Parameter::Kind::pointer, DType::f32, "of each head");
//       }, .function = [](const RegisterTile<f32>& scores, const ScorePlace& at, const Parameters& p) {
//         const f32 slope = p.get<gptr<f32>>("slopes")[at.head];
//         return scores + astype<f32>(at.key - at.query) * slope;
//       }};
struct AttentionScore {
  // Adds the parameters that follow the kernel's own.
  std::function<void(Parameters&)> declare = [](Parameters&) {};
  // Takes scale Q K^T, and returns the score that replaces it; -inf hides a key.
  std::function<RegisterTile<f32>(const RegisterTile<f32>&, const ScorePlace&, const Parameters&)> function =
      nullptr;
  // Takes the gradient of the result of `function`, and scale Q K^T, and returns the gradient of scale Q K^T,
  // which AttentionGradient needs. If `function` hides a key, the first argument is 0.
  std::function<RegisterTile<f32>(const RegisterTile<f32>&, const RegisterTile<f32>&, const ScorePlace&,
                                  const Parameters&)>
      gradient = nullptr;

  // Returns the gradient of a function that only adds to scores, or hides keys.
  static RegisterTile<f32> gradient_passes(const RegisterTile<f32>& gradient, const RegisterTile<f32>&,
                                           const ScorePlace&, const Parameters&) {
    return gradient;
  }
};

// Parameters, in order: tensor maps Q, K, V, unless V is the first columns of K, and, unless packed, O
// (columns, rows, heads, batches); f32 *lse,
// if it is wanted, with a number for each query of each head of each batch; u32 queries and keys, heads (of Q
// in a batch), batches, and group (heads of Q that share one of K and V); f32 scale, above 0; then, if the
// operation has them, s32 visible, u32 heads_in_wave (see heads_in_wave()), s32 window_start, an f32 for each
// step of attention.def, f32 *sinks, one for each head, u32 *dropout_seed, four numbers (dropout.h), u32
// *key_lengths, one for each batch, u32 *tree_mask, one for each query of each batch (QueryTree), and u32
// *block_table, ceil(keys / page) pages for each batch, u32
// table_stride apart; K and V then have `page` rows each; if the page is not a multiple of 8, K and V are
// pointers; then u32 pages, or if pages have scales, and with such pointers, for K and for V, columns and the
// strides of rows, heads and pages in units of 16 bytes; u32 promote, if sums are promoted; with Q of e4m3
// f32 *q_scale; with K and V of e4m3 f32 *k_scale and *v_scale, and u32 scales, the number of scales in each,
// or of a page; with a split tile u32 teams and parts (AttentionDivision), and f32 *part_sums
// (AttentionParts). Packed: queries are those of the longest sequence, and without lengths keys are omitted;
// lse holds for each head the queries of all sequences, and the map of O is replaced with O, u64 row_stride
// and head_stride in elements, multiples of 8, u32 *query_offsets and *key_offsets, batches + 1 of each, the
// latter without lengths, and if CTAs stay u32 *order (order.h). Both bounds count from keys - queries of a
// sequence. The score's parameters are last. `sms` is the number of multiprocessors for which the grid is
// made if CTAs stay; 0 for the device's. Throws Error as check() does.
Kernel attention(const AttentionOperation& operation, const AttentionTile& tile,
                 const AttentionScore& score = {}, int sms = 0, Where where = Where::here());

}  // namespace ptxbuilder::kernels
