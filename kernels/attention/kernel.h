// Builds the kernel of attention's forward pass. One function covers every mask, depth and tile.
#pragma once

#include <functional>

#include "kernels/attention/config.h"
#include "ptxbuilder/registers/tile.h"
#include "ptxbuilder/tile/parameters.h"

namespace ptxbuilder::kernels {

// The position of a warpgroup's tile of scores, with the first query and key, the query of each row, and the
// key of each column. Some queries and keys may be beyond the end. For packed sequences, queries and keys are
// counted from the beginning of their sequence.
struct ScorePlace {
  u32 batch, head;
  u32 first_query, first_key;
  RegisterTile<s32> query, key;
};

// A user-defined function for scores, for example:
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
  // Declares the parameters of the function. They follow the kernel's own parameters.
  std::function<void(Parameters&)> declare = [](Parameters&) {};
  // Returns the scores that replace scale Q K^T, which is the first argument. A score of -inf hides a key.
  std::function<RegisterTile<f32>(const RegisterTile<f32>&, const ScorePlace&, const Parameters&)> function =
      nullptr;
  // Returns the gradient of scale Q K^T; only AttentionGradient needs this function. The first argument is
  // the gradient of the result of `function` (0 for hidden keys), and the second is scale Q K^T.
  std::function<RegisterTile<f32>(const RegisterTile<f32>&, const RegisterTile<f32>&, const ScorePlace&,
                                  const Parameters&)>
      gradient = nullptr;

  // Serves as `gradient` if `function` only adds to scores or hides keys.
  static RegisterTile<f32> gradient_passes(const RegisterTile<f32>& gradient, const RegisterTile<f32>&,
                                           const ScorePlace&, const Parameters&) {
    return gradient;
  }
};

// Returns the kernel of a forward pass. Its parameters are, in order:
// - tensor maps Q, K, V and O (columns, rows, heads, batches); V is absent if values are the first columns of
//   K, and O is absent if packed;
// - f32 *lse, if requested: a number for each query of each head of each batch;
// - u32 queries and keys, heads (heads of Q in a batch), batches, and group (heads of Q that share a head of
//   K and V);
// - f32 scale, above 0;
// - as far as the operation needs them: s32 visible, u32 heads_in_wave (see heads_in_wave()), s32
//   window_start, an f32 for each step of attention.def, f32 *sinks (one for each head), u32 *dropout_seed
//   (four numbers, see dropout.h), u32 *key_lengths (one for each batch), and u32 *tree_mask (one for each
//   query of each batch, see QueryTree);
// - with pages, u32 *block_table, which lists ceil(keys / page) pages for each batch, and u32 table_stride,
//   the distance between the lists; the maps K and V then have `page` rows and a page in place of a batch, or
//   are pointers if `page` is not a multiple of 8;
// - u32 pages, if pages have scales or K and V are pointers; for each of K and V that is a pointer, the
//   number of columns, and the strides of rows, heads and pages in units of 16 bytes;
// - u32 promote, if sums are promoted; f32 *q_scale, if Q is e4m3; if K and V are e4m3, f32 *k_scale and
//   *v_scale, and u32 scales, the number of scales in each (with page_scales, for each page);
// - with a split tile, u32 teams and parts (AttentionDivision), and f32 *part_sums (AttentionParts);
// - if packed, O (a pointer), u64 row_stride and head_stride (in elements, multiples of 8), u32
//   *query_offsets and, without lengths, u32 *key_offsets (batches + 1 numbers each); with a persistent tile,
//   u32 *order (order.h);
// - the parameters of `score`.
// If packed, `queries` is the length of the longest sequence, `keys` is omitted unless there are lengths, and
// lse holds the queries of all sequences for each head; visible and window_start are then relative to keys -
// queries of each sequence. `sms` is the number of multiprocessors that determines the grid of a persistent
// tile; 0 means the number of the device's multiprocessors. Throws an Error if check() would.
Kernel attention(const AttentionOperation& operation, const AttentionTile& tile,
                 const AttentionScore& score = {}, int sms = 0, Where where = Where::here());

}  // namespace ptxbuilder::kernels
