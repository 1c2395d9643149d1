// The roles of attention's kernel share this state: places for queries, and the rings of keys and values.
#pragma once

#include <numeric>

#include "kernels/attention/config.h"
#include "ptxbuilder/tile/pipeline.h"
#include "ptxbuilder/tile/tma_tensor.h"

namespace ptxbuilder::kernels {

inline constexpr int kConsumerRows = 64;  // of queries

inline Swizzle widest_swizzle(int columns, int element_bytes = 2) {
  const int bytes = columns * element_bytes;
  return bytes % 128 == 0 ? Swizzle128B : bytes % 64 == 0 ? Swizzle64B : Swizzle32B;
}

// The rows of a consumer as a box of the tensor of Q or O, if heads are rows: batches, groups of such heads,
// queries, these heads, and columns from `column` on.
struct BoxOfHeads {
  BoxOfHeads(const AttentionOperation& o, const SharedTile& tile, u32 column, int columns, u32 row, u32 head,
             u32 batch)
      : copy(o.type, {1, 1, kConsumerRows / o.heads_in_rows, o.heads_in_rows, columns}, {}, tile.swizzle()),
        at({ds(batch, 1), ds(head, 1), ds(row / o.heads_in_rows, kConsumerRows / o.heads_in_rows),
            ds(0, o.heads_in_rows), ds(column, columns)}) {}

  TensorCopy copy;
  std::vector<Slice> at;
};

// Makes a ring that TMA fills, or the threads of a warpgroup.
inline Pipeline ring(Kernel& k, int stages, const SharedTile& tile, int consumers, bool by_threads) {
  if (by_threads) return {k, stages, {tile}, consumers, ThreadProducers{1}};
  return {k, stages, {tile}, consumers};
}

// Keys and values of e4m3 are loaded into these rings, from which warpgroups convert them.
struct CacheRings {
  CacheRings(Kernel& k, const AttentionOperation& o, const AttentionTile& t)
      : K(tile(k, o.depth, t, "K of e4m3")),
        V(tile(k, o.value_depth, t, "V of e4m3")),
        keys(ring(k, t.cache_stages, K, 1, o.gathers())),
        values(ring(k, t.cache_stages, V, 1, o.gathers())) {}

  SharedTile K, V;
  Pipeline keys, values;

 private:
  static SharedTile tile(Kernel& k, int columns, const AttentionTile& t, const char* name) {
    return k.shared(DType::e4m3, {t.bn, columns}, widest_swizzle(columns, 1), t.cache_stages, name);
  }
};

struct AttentionRoles {
  AttentionRoles(Kernel& k, const AttentionOperation& o, const AttentionTile& t)
      : Q(k.shared(o.type, {kConsumerRows, o.depth}, widest_swizzle(std::gcd(o.depth, o.value_depth)),
                   t.consumers * t.query_places, "Q")),  // O is stored through a part of it, unless CTAs stay
        K(k.shared(o.type, {t.bn, o.depth}, widest_swizzle(o.depth), t.stages, "K")),
        V(k.shared(o.type, {t.bn, o.value_depth}, widest_swizzle(o.value_depth), t.value_stages(), "V")),
        loaded(k, std::vector<int>(static_cast<size_t>(Q.stages()), 1), {"queries"}),
        multiplied(k, std::vector<int>(static_cast<size_t>(Q.stages()), 4), {"queries multiplied"}),
        keys(ring(k, t.stages, K, t.consumers, o.fills_by_threads())),
        values(ring(k, t.value_stages(), V, t.consumers, o.fills_by_threads())) {
    if (t.turns) turns.emplace(k, t.consumers);
    if (o.e4m3) cache.emplace(k, o, t);
  }

  SharedTile Q, K, V;           // Q has a stage for each consumer, then the second places
  Barriers loaded, multiplied;  // each consumer's queries are loaded; they are no longer needed
  Pipeline keys, values;
  std::optional<Turns> turns;
  std::optional<CacheRings> cache;

  // These hold the data that is loaded from memory.
  const SharedTile& loaded_K() const { return cache ? cache->K : K; }
  const SharedTile& loaded_V() const { return cache ? cache->V : V; }
  const Pipeline& loaded_keys() const { return cache ? cache->keys : keys; }
  const Pipeline& loaded_values() const { return cache ? cache->values : values; }
};

}  // namespace ptxbuilder::kernels
