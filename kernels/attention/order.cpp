#include "kernels/attention/order.h"

#include "kernels/attention/lanes.h"
#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder::kernels {
namespace {

constexpr uint32_t kThreads = 256;

}  // namespace

size_t AttentionOrder::bytes(int64_t query_rows, int64_t sequences, int rows) {
  return static_cast<size_t>(kFirst + kEntry * (query_rows / rows + sequences)) * 4;
}

Kernel attention_order() {
  Kernel k("attention_order");
  auto [query_offsets, key_offsets, order, sequences, rows] =
      k.params<gptr<u32>, gptr<u32>, gptr<u32>, u32, u32>("query_offsets", "key_offsets", "order",
                                                          "sequences", "rows");
  k.describe(
      {{"query_offsets", "where each sequence begins in Q, and where the last ends"},
       {"key_offsets", "where each sequence begins in K, and where the last ends"},
       {"order", "a counter, the number of blocks, and for each block its sequence and its place in it"},
       {"sequences", "how many"},
       {"rows", "rows of a block of queries"}});
  k.threads(kThreads);
  k.grid("ceil_div(sequences, 8)");
  const auto blocks_of = [queries = query_offsets, rows = rows](u32 s) {
    return ceil_div(u32(queries[s + 1]) - queries[s], rows);
  };
  const auto keys_of = [keys = key_offsets](u32 s) { return u32(keys[s + 1]) - keys[s]; };
  const u32 own = ctaid_x() * (kThreads / kWarp) + tid_x() / kWarp, lane = laneid();
  if_(own < sequences, [&, sequences = sequences, order = order] {
    const u32 blocks = blocks_of(own), keys = keys_of(own);
    Var<u32> ahead(0), all(0);
    for_(lane, sequences, kWarp, [&](u32 other) {
      const u32 its_blocks = blocks_of(other), its_keys = keys_of(other);
      const pred first = (its_keys > keys) | ((its_keys == keys) & (other < own));
      ahead = ahead.value() + select(first, its_blocks, u32(0));
      all = all.value() + its_blocks;
    });
    const u32 place = sum_of_warp(ahead), count = sum_of_warp(all);
    for_(lane, blocks, kWarp, [&](u32 i) {
      const u32 at = AttentionOrder::kFirst + (place + i) * AttentionOrder::kEntry;
      order[at] = own;
      order[at + 1] = blocks - 1 - i;
    });
    if_((own == 0) & (lane == 0), [&] {
      order[AttentionOrder::kCounter] = u32(0);
      order[AttentionOrder::kBlocks] = count;
    });
  });
  return k;
}

}  // namespace ptxbuilder::kernels
