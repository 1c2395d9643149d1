// What the roles of attention's kernel share: places for queries, and the rings of keys and values.
#pragma once

#include <numeric>

#include "kernels/attention/config.h"
#include "ptxbuilder/tile/pipeline.h"

namespace ptxbuilder::kernels {

inline constexpr int kConsumerRows = 64;  // of queries

inline Swizzle widest_swizzle(int columns) {
  return columns % 64 == 0 ? Swizzle128B : columns % 32 == 0 ? Swizzle64B : Swizzle32B;
}

struct AttentionRoles {
  AttentionRoles(Kernel& k, const AttentionOperation& o, const AttentionTile& t)
      : Q(k.shared(o.type, {kConsumerRows, o.depth}, widest_swizzle(std::gcd(o.depth, o.value_depth)),
                   t.consumers, "Q")),  // a part of which O leaves through, unless CTAs stay
        K(k.shared(o.type, {t.bn, o.depth}, widest_swizzle(o.depth), t.stages, "K")),
        V(k.shared(o.type, {t.bn, o.value_depth}, widest_swizzle(o.value_depth), t.value_stages(), "V")),
        loaded(k, std::vector<int>(static_cast<size_t>(t.consumers), 1), {"queries"}),
        multiplied(k, std::vector<int>(static_cast<size_t>(t.consumers), 4), {"queries multiplied"}),
        keys(k, t.stages, {K}, t.consumers),
        values(k, t.value_stages(), {V}, t.consumers) {
    if (t.turns) turns.emplace(k, t.consumers);
  }

  SharedTile Q, K, V;           // of Q one stage for each consumer
  Barriers loaded, multiplied;  // of each consumer's queries: when they are there, and when nobody needs them
  Pipeline keys, values;
  std::optional<Turns> turns;
};

}  // namespace ptxbuilder::kernels
