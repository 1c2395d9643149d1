// Steps that consumers perform on a block of keys, and on the rows of O at the end.
#pragma once

#include "kernels/attention/roles.h"
#include "kernels/attention/work.h"
#include "ptxbuilder/ir/instruction.h"
#include "ptxbuilder/product/accumulator.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/tma.h"

namespace ptxbuilder::kernels {

// Returns the scores, with -inf for keys that a query does not see. The scores belong to the keys that begin
// at `block`. `row` holds the query of each row, and `column` the index of each key within the block.
inline RegisterTile<f32> hide_keys(const RegisterTile<f32>& scores, const AttentionWork& w, s32 block,
                                   const RegisterTile<s32>& row, const RegisterTile<s32>& column) {
  // The column offset of the thread is folded into the limits. The remaining column offsets are constants and
  // need no registers.
  const s32 first = block + column.value(0), end = s32(w.keys) - first;
  const RegisterTile<s32> beyond =
      RegisterTile<s32>::of(scores.layout(), [&](int i) { return s32(scores.layout().col(0, i)); });
  const RegisterTile<s32> last =
      w.visible ? min(row + (*w.visible - first), end) : RegisterTile<s32>(end, row.layout());
  RegisterTile<f32> seen = select(beyond < last, scores, -INFINITY);
  if (w.window_start) seen = select(beyond < row + (*w.window_start - first), -INFINITY, seen);
  if (!w.tree) return seen;
  // Keys before the tree have negative bit numbers; as unsigned numbers, these exceed 31.
  const s32 most = s32(max(w.own_queries(), 1)) - 1;
  const RegisterTile<u32> hidden = RegisterTile<u32>::of(
      row.layout(), [&](int i) { return ~u32(w.tree->masks[u32(min(row.value(i), most))]); });
  const RegisterTile<u32> bit = astype<u32>(beyond + (first - w.tree->first_key));
  return select((select(bit < 32u, hidden >> bit, 0u) & 1u) == 0u, seen, -INFINITY);
}

// Multiplies the sums by the factors of their rows, unless all factors of the warp are 1. The code branches,
// so it must be called only while no product runs.
inline void rescale(Accumulator& sums, const RegisterTile<f32>& by) {
  pred some(false);
  for (int i = 0; i < by.count(); ++i) some = some | (by.value(i) != f32(1));
  if_(instruction<"vote.sync.any.pred">(some, 0xffffffffu), [&] { store(sums, load<f32>(sums) * by); });
}

// Clears row `keys` and all later rows of a tile of values. These rows may hold anything, and a weight of 0
// times NaN is NaN. All threads of a warpgroup must call this function.
template <class T>
void clear_from(const TileView& values, u32 keys) {
  constexpr int kRows = 16;
  for_(keys / kRows, u32(values.row_count() / kRows), [&](u32 i) {
    const TileView some = values.rows(i * kRows, kRows);
    const RegisterTile<T> all = load<T>(some);
    const RegisterTile<u32> key = row_index(all.layout()) + i * kRows;
    store(some, select(key < keys, all, T(0.f)));
  });
}

// Stores a consumer's rows of O with TMA, beginning at column `column` of O. One thread must call this
// function.
inline void store_rows_of_heads(const AttentionOperation& o, TensorMap to, const TileView& out, u32 column,
                                u32 row, const AttentionWork& w) {
  if (o.heads_in_rows == 1) return tma_store(to, out, column, row, w.head, w.batch);
  // The panels of a part of a tile are not adjacent, so they are stored one by one.
  const int columns = out.whole().panel_cols();
  for (int c = 0; c < out.tile().cols(); c += columns) {
    const BoxOfHeads box(o, out.whole(), column + c, columns, row, w.head, w.batch);
    tma_store(box.copy, to, box.at, out.cols(c, columns));
  }
}

// Stores a consumer's rows of O from a tile in shared memory. `row` is the first row, counted in the
// sequence. The threads store row by row, because a box of TMA could extend into the next sequence. All
// threads of a warpgroup must call this function.
template <class T>
void store_rows_of_sequence(const AttentionOperation& o, const Parameters& p, const TileView& out, u32 row,
                            const AttentionWork& w) {
  constexpr int kVector = 8;  // number of 16-bit elements in an access of 16 bytes
  const u64 row_stride = p.get<u64>("row_stride"), head_stride = p.get<u64>("head_stride");
  const u32 heads = o.heads_in_rows;
  const RegisterLayout layout = strided({kConsumerRows, o.value_depth}, kVector);
  const std::vector<u32> words = load<T>(out, layout).registers();
  const RegisterTile<u32> rows = row_index(layout), columns = col_index(layout);
  for (int i = 0; i < layout.values(); i += kVector) {
    const u32 at = row + rows.value(i), query = w.first_query + at / heads,
              head = w.head * heads + at % heads;
    const gptr<T> to =
        p.get<gptr<T>>("O") + (u64(query) * row_stride + u64(head) * head_stride + u64(columns.value(i)));
    const size_t first = static_cast<size_t>(i) / 2;
    if_(at < w.queries, [&] {
      store(gptr<u32>(gmem(to)),
            std::array{words[first], words[first + 1], words[first + 2], words[first + 3]});
    });
  }
}

}  // namespace ptxbuilder::kernels
