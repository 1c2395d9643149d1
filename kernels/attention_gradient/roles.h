// The state that the roles of attention's gradient share: tiles, rings, and barriers.
#pragma once

#include <optional>

#include "kernels/attention/kernel.h"
#include "kernels/attention/roles.h"
#include "kernels/attention_gradient/fragments.h"
#include "ptxbuilder/product/cluster_sum.h"
#include "ptxbuilder/tile/pipeline.h"

namespace ptxbuilder::kernels {

// Returns the number of queries for which a consumer computes weights and slopes at a time; all of them at
// once would need more registers than there are.
inline int part_columns(const AttentionGradientTile& t, bool bends) {
  return bends ? 16 : t.bm % 32 == 0 ? 32 : 40;
}
// Returns whether weights depend on more than scale Q K^T.
inline bool bends_scores(const AttentionGradientOperation& o, const AttentionScore& score) {
  return o.has_step() || score.function;
}

// Adds up dK and dV over the CTAs of a cluster that divide a group: each CTA gets the sums of some of the
// columns, which are stored through the shared memory of dS.
struct DividedGroup {
  DividedGroup(Kernel& k, const AttentionGradientOperation& o, const AttentionGradientTile& t,
               const SharedTile& dS)
      : dK(k, t.kConsumerKeys, o.depth, t.kConsumers),
        dV(k, t.kConsumerKeys, o.depth, t.kConsumers),
        out(dS, o.type, {t.bn(), dK.columns()}, widest_swizzle(dK.columns()), 2) {}

  ClusterSum dK, dV;
  SharedTile out;  // the tile of dK and of dV
};

struct GradientRoles {
  GradientRoles(Kernel& k, const AttentionGradientOperation& o, const AttentionGradientTile& t, bool bends)
      : K(k.shared(o.type, {t.bn(), o.depth}, swizzle(t, o.depth), 1, "K")),
        V(k.shared(o.type, {t.bn(), o.value_depth}, swizzle(t, o.value_depth), 1, "V")),
        Q(k.shared(o.type, {t.bm, o.depth}, swizzle(t, o.depth), t.stages, "Q")),
        dO(k.shared(o.type, {t.bm, o.value_depth}, swizzle(t, o.value_depth), t.gradient_stages, "dO")),
        dS(k.shared(o.type, {t.bm, t.bn()}, widest_swizzle(t.bn()), 2, "dS")),
        numbers(
            k.shared<f32>({1, 2 * t.bm, part_columns(t, bends)}, SwizzleNone, t.stages, "powers and sums")),
        arrived(k, {2}, {"keys and values"}),
        queries(k, t.stages, {Q, numbers}, t.kConsumers),
        gradients(k, t.gradient_stages, {dO}, t.kConsumers),
        exchanged(k.named_barrier(t.kConsumers * 128)) {
    if (t.shares_keys)
      P = k.shared(o.type, {t.bm, t.bn()}, widest_swizzle(t.bn()), 2, "P");
    else
      slopes.emplace(k, dS.stages(), std::vector<SharedTile>{dS}, t.kConsumers,
                     ThreadProducers{t.kConsumers});
    if (t.ctas > 1) divided.emplace(k, o, t, dS);
    if (!adds_from_registers(o, t)) {
      const RegisterLayout piece = GradientFragments(o, t).piece();
      dQ = k.shared<f32>({piece.rows(), piece.cols()}, SwizzleNone, t.kConsumers, "dQ");
      left.emplace(k, std::vector<int>(t.kConsumers, 4), std::vector<std::string>{"sums of dQ left"});
      taken.emplace(k, std::vector<int>(t.kConsumers, 1), std::vector<std::string>{"sums of dQ taken"});
    }
  }

  // Returns a swizzle that keeps panels whole in each consumer's half of the shared columns.
  static Swizzle swizzle(const AttentionGradientTile& t, int columns) {
    return widest_swizzle(t.shares_keys ? columns / t.kConsumers : columns);
  }

  SharedTile K, V, Q, dO, dS, numbers;  // P and dS have a row for each query
  std::optional<SharedTile> P;          // if consumers share keys
  std::optional<SharedTile> dQ;         // one tile for each consumer, unless it adds from its registers
  Barriers arrived;
  Pipeline queries, gradients;
  std::optional<Pipeline>
      slopes;              // dS of consumers that have separate keys, which both fill and read its stages
  NamedBarrier exchanged;  // consumers synchronize here when P and dS are complete
  std::optional<DividedGroup> divided;
  // A warp for each consumer adds to dQ's sums. These barriers signal when each warp of the consumer has
  // stored its addends, and when the place is free again.
  std::optional<Barriers> left, taken;
};

}  // namespace ptxbuilder::kernels
