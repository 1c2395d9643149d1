// Defines the state that the roles of attention's backward pass share, which consists of tiles, rings and
// barriers.
#pragma once

#include <optional>

#include "kernels/attention/kernel.h"
#include "kernels/attention/roles.h"
#include "kernels/attention_gradient/fragments.h"
#include "ptxbuilder/product/cluster_sum.h"
#include "ptxbuilder/tile/pipeline.h"

namespace ptxbuilder::kernels {

// Returns the number of queries for which a consumer computes weights and slopes at a time. To process all
// queries at once, it would need more registers than exist.
inline int part_columns(const AttentionGradientTile& t, bool bends) {
  return bends ? 16 : t.bm % 32 == 0 ? 32 : 40;
}
// Returns whether weights depend on anything other than scale Q K^T.
inline bool bends_scores(const AttentionGradientOperation& o, const AttentionScore& score) {
  return o.has_step() || score.function;
}

// Adds up dK and dV over the CTAs of a cluster that divide the heads of a group. Each CTA receives the sums
// of some columns, and stores them through the shared memory of dS.
struct DividedGroup {
  DividedGroup(Kernel& k, const AttentionGradientOperation& o, const AttentionGradientTile& t,
               const SharedTile& dS)
      : dK(k, t.kConsumerKeys, o.depth, t.kConsumers),
        dV(k, t.kConsumerKeys, o.depth, t.kConsumers),
        out(dS, o.type, {t.bn(), dK.columns()}, widest_swizzle(dK.columns()), 2) {}

  ClusterSum dK, dV;
  SharedTile out;  // stage 0 for dK, stage 1 for dV
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

  // Returns the swizzle of a tile. If consumers divide the columns, each half consists of complete panels.
  static Swizzle swizzle(const AttentionGradientTile& t, int columns) {
    return widest_swizzle(t.shares_keys ? columns / t.kConsumers : columns);
  }

  SharedTile K, V, Q, dO, dS, numbers;  // P and dS have a row for each query and a column for each key
  std::optional<SharedTile> P;          // set if consumers share keys
  std::optional<SharedTile>
      dQ;  // a tile for each consumer; unset if consumers add to dQ from their registers
  Barriers arrived;
  Pipeline queries, gradients;
  std::optional<Pipeline>
      slopes;  // the ring of dS if consumers have separate keys; both consumers fill and read its stages
  NamedBarrier exchanged;  // consumers synchronize here when P and dS are complete
  std::optional<DividedGroup> divided;
  // For each consumer, a separate warp adds to the sums of dQ. `left` signals that all warps of the consumer
  // have stored their addends in shared memory, and `taken` that this memory is free again.
  std::optional<Barriers> left, taken;
};

}  // namespace ptxbuilder::kernels
