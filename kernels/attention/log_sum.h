// Stores the logarithms of sums (lse) for a consumer's rows.
#pragma once

#include <functional>

#include "kernels/attention/work.h"
#include "ptxbuilder/ir/global_tensor.h"
#include "ptxbuilder/registers/memory.h"

namespace ptxbuilder::kernels {

// Returns how many logarithms a head has. If packed, they include the queries of all sequences.
inline u32 logarithms_of_head(const AttentionSizes& sizes) {
  return sizes.query_offsets ? u32((*sizes.query_offsets)[sizes.batches])
                             : sizes.queries / sizes.heads_in_rows;
}
// Returns the number of the row of logarithms for the head that `w` processes.
inline u32 head_of_logarithms(const AttentionSizes& sizes, const AttentionWork& w) {
  return sizes.query_offsets ? w.head : w.head_of_all(sizes);
}

// Stores the logarithms if heads are rows. Several threads hold the number of a row; the thread for which
// `stores(row of the tile)` returns true stores it. The logarithms of each head are contiguous, whether heads
// are rows or not. `row` is the first row; rows beyond the last query are skipped.
inline void store_log_sum_of_heads(const AttentionOperation& o, const AttentionSizes& sizes,
                                   const Parameters& p, const AttentionWork& w, u32 row,
                                   const RegisterTile<f32>& log_sum, const std::function<pred(u32)>& stores) {
  const gptr<f32> to = p.get<gptr<f32>>("lse");
  const u32 heads = o.heads_in_rows, queries = logarithms_of_head(sizes),
            first = head_of_logarithms(sizes, w) * heads;
  const RegisterTile<u32> rows = row_index(log_sum.layout());
  for (int i = 0; i < rows.count(); ++i) {
    const u32 at = rows.value(i) + row;
    if_(stores(rows.value(i)) & (at < w.queries),
        [&] { to[(first + at % heads) * queries + w.first_query + at / heads] = log_sum.value(i); });
  }
}

// Stores the logarithms of a consumer's rows. `row` is the first row, counted in the sequence; rows beyond
// the last query are skipped.
inline void store_log_sum(const AttentionOperation& o, const AttentionSizes& sizes, const Parameters& p,
                          const AttentionWork& w, u32 row, const RegisterTile<f32>& log_sum) {
  if (o.heads_in_rows > 1)  // the four lanes of a row hold the same number
    return store_log_sum_of_heads(o, sizes, p, w, row, log_sum, [](u32) { return laneid() % 4 == 0; });
  const u32 end = w.first_query + w.queries;
  const gptr<f32> to = p.get<gptr<f32>>("lse");
  const GlobalTensor lse(to, {sizes.heads * sizes.batches, end}, {logarithms_of_head(sizes), 1});
  store(lse(head_of_logarithms(sizes, w), _).as_col().tile(w.first_query + row, 0), log_sum);
}

}  // namespace ptxbuilder::kernels
