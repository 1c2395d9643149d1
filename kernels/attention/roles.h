// Defines the state that the roles of an attention kernel share, such as the memory for queries, and the
// rings of keys and values.
#pragma once

#include <numeric>

#include "kernels/attention/config.h"
#include "ptxbuilder/tile/pipeline.h"
#include "ptxbuilder/tile/tma_tensor.h"

namespace ptxbuilder::kernels {

inline constexpr int kConsumerRows = 64;  // queries per consumer

inline Swizzle widest_swizzle(int columns, int element_bytes = 2) {
  const int bytes = columns * element_bytes;
  return bytes % 128 == 0 ? Swizzle128B : bytes % 64 == 0 ? Swizzle64B : Swizzle32B;
}

// The rows of a consumer as a box of Q or O if heads are rows (AttentionOperation::heads_in_rows). The
// dimensions of the tensor are batches, groups of heads, queries, the heads of a group, and columns. The box
// begins at column `column`.
struct BoxOfHeads {
  BoxOfHeads(const AttentionOperation& o, const SharedTile& tile, u32 column, int columns, u32 row, u32 head,
             u32 batch)
      : copy(tile.dtype(), {1, 1, kConsumerRows / o.heads_in_rows, o.heads_in_rows, columns}, {},
             tile.swizzle()),
        at({ds(batch, 1), ds(head, 1), ds(row / o.heads_in_rows, kConsumerRows / o.heads_in_rows),
            ds(0, o.heads_in_rows), ds(column, columns)}) {}

  TensorCopy copy;
  std::vector<Slice> at;
};

// Returns a ring that is filled by TMA or, if `by_threads`, by the threads of a warpgroup.
inline Pipeline ring(Kernel& k, int stages, const SharedTile& tile, int consumers, bool by_threads) {
  if (by_threads) return {k, stages, {tile}, consumers, ThreadProducers{1}};
  return {k, stages, {tile}, consumers};
}

// A ring into which keys or values of e4m3 are loaded. A warpgroup reads them from this ring to convert or
// transpose them.
struct CacheRing {
  CacheRing(Kernel& k, const AttentionOperation& o, const AttentionTile& t, int columns, const char* name)
      : tile(k.shared(DType::e4m3, {t.bn, columns}, widest_swizzle(columns, 1), t.cache_stages, name)),
        ring(kernels::ring(k, t.cache_stages, tile, 1, o.gathers())) {}

  SharedTile tile;
  Pipeline ring;
};

struct AttentionRoles {
  AttentionRoles(Kernel& k, const AttentionOperation& o, const AttentionTile& t)
      : Q(k.shared(o.product_type(), {kConsumerRows, o.depth}, query_swizzle(o), t.consumers * t.query_places,
                   "Q")),
        K(k.shared(o.product_type(), {t.bn, o.depth}, widest_swizzle(o.depth, size_of(o.product_type())),
                   t.stages, "K")),
        V(o.e4m3_products
              ? k.shared(DType::e4m3, {o.value_depth, t.bn}, widest_swizzle(t.bn, 1), t.value_stages(), "V^T")
              : k.shared(o.type, {t.bn, o.value_depth}, widest_swizzle(o.value_depth), t.value_stages(),
                         "V")),
        loaded(k, std::vector<int>(static_cast<size_t>(Q.stages()), 1), {"queries"}),
        multiplied(k, std::vector<int>(static_cast<size_t>(Q.stages()), 4), {"queries multiplied"}),
        keys(ring(k, t.stages, K, t.consumers, o.fills_keys())),
        values(ring(k, t.value_stages(), V, t.consumers, o.fills_values())) {
    if (t.turns) turns.emplace(k, t.consumers);
    if (o.converts()) key_cache.emplace(k, o, t, o.depth, "K of e4m3");
    if (o.e4m3) value_cache.emplace(k, o, t, o.value_depth, "V of e4m3");
    if (o.e4m3_products)
      O.emplace(
          k.shared(o.type, {kConsumerRows, o.value_depth}, widest_swizzle(o.value_depth), t.consumers, "O"));
  }

  SharedTile Q, K,
      V;  // Q has a stage for each consumer, and then a second stage for each consumer if `query_places` is 2
  Barriers loaded,
      multiplied;  // for each stage of Q: its queries have been loaded; its queries are no longer needed
  Pipeline keys, values;
  std::optional<Turns> turns;
  std::optional<CacheRing> key_cache, value_cache;
  // The memory of O, with a stage for each consumer. It is set for e4m3 products, since elements of Q and V
  // are then narrower than those of O.
  std::optional<SharedTile> O;

  // These functions return the tiles and rings into which keys and values are loaded from memory.
  const SharedTile& loaded_K() const { return key_cache ? key_cache->tile : K; }
  const SharedTile& loaded_V() const { return value_cache ? value_cache->tile : V; }
  const Pipeline& loaded_keys() const { return key_cache ? key_cache->ring : keys; }
  const Pipeline& loaded_values() const { return value_cache ? value_cache->ring : values; }

 private:
  // Returns the swizzle of Q. It must also suit O, which may be stored through the memory of Q, unless O has
  // its own memory.
  static Swizzle query_swizzle(const AttentionOperation& o) {
    return o.e4m3_products ? widest_swizzle(o.depth, 1) : widest_swizzle(std::gcd(o.depth, o.value_depth));
  }
};

}  // namespace ptxbuilder::kernels
