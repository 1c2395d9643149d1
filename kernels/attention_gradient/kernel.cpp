#include "kernels/attention_gradient/kernel.h"

#include <fmt/format.h>

#include "kernels/attention_gradient/consumer.h"

namespace ptxbuilder::kernels {
namespace {

Parameters declare(Kernel& k, const AttentionGradientOperation& o, const AttentionScore& score, Where where) {
  using enum Parameter::Kind;
  Parameters p;
  p.add("Q", tensor_map, o.type, "queries: columns, rows, heads, batches");
  p.add("K", tensor_map, o.type, "keys");
  p.add("V", tensor_map, o.type, "values, a row for each key");
  p.add("dO", tensor_map, o.type, "the gradient of softmax(scale Q K^T) V, a row for each query");
  if (!o.packed) {
    p.add("dK", tensor_map, o.type, "the gradient of K");
    p.add("dV", tensor_map, o.type, "the gradient of V");
  }
  p.add("numbers", pointer, DType::f32,
        "for each block of queries of a head, the base-2 logarithms of the sums of exp(scale Q K^T), and "
        "then sum(dO * O)");
  p.add("dq", pointer, DType::f32, "sums of dQ / scale, block by block of queries");
  if (!o.packed) p.add("queries", scalar, DType::u32, "rows of a head of Q");
  p.add("keys", scalar, DType::u32,
        o.packed ? "rows of a head of the longest sequence of K" : "rows of a head of K");
  p.add("group", scalar, DType::u32, "heads of Q that share one of K and V");
  p.add("scale", scalar, DType::f32, "a factor of the scores, above 0");
  const std::string beside = o.packed ? " + keys - queries, of its sequence" : "";
  if (o.causal) p.add("visible", scalar, DType::s32, "query i sees the keys below i + visible" + beside);
  if (o.window)
    p.add("window_start", scalar, DType::s32, "query i sees the keys from i + window_start" + beside + " on");
#define PTXBUILDER_ATTENTION_STEP(name, below, rule, meaning) \
  if (o.name) p.add(#name, scalar, DType::f32, meaning);
#include "kernels/attention/attention.def"
  if (o.dropout)
    p.add("dropout_seed", pointer, DType::u32, "64 bits of a seed, and 64 of an offset, the lowest first");
  if (o.deterministic)
    p.add("turns", pointer, DType::u32,
          "for each part of a block of queries, how many blocks of keys have added to its sums: zeros at "
          "first");
  if (o.packed) {
    add_sequences(p);
    p.add("key_offsets", pointer, DType::u32, "where each sequence begins in K, and where the last ends");
    PackedHeads::add(p, o, "dK", "the gradient of K");
    PackedHeads::add(p, o, "dV", "the gradient of V");
  }
  score.declare(p);
  p.declare(k, where);
  return p;
}

}  // namespace

Kernel attention_gradient(const AttentionGradientOperation& o, const AttentionGradientTile& t,
                          const AttentionScore& score, Where where) {
  check(o, t, where);
  if (score.function && !score.gradient)
    throw Error(where,
                "attention_gradient: the score function has no gradient; set AttentionScore::gradient, for "
                "example to AttentionScore::gradient_passes if the function adds to scores or hides keys");
  Kernel k("attention_gradient");
  k.waive("wgmma-a-registers");  // the machine code does not have this defect; scripts/sentinel verifies this
  const Parameters p = declare(k, o, score, where);
  k.cluster(static_cast<uint32_t>(t.ctas));
  const std::string blocks = fmt::format("ceil_div(keys, {})", t.bn()), heads = "extent(K, 2)",
                    batches = o.packed ? "batches" : "extent(K, 3)",
                    of_cluster = t.ctas > 1 ? fmt::format(" * {}", t.ctas) : "";
  if (t.heads_first)
    k.grid(heads + of_cluster, batches, blocks);
  else
    k.grid(blocks + of_cluster, heads, batches);
  k.configure("tile", text(t));
  if (t.overlaps) k.overlaps();
  const GradientRoles r(k, o, t, bends_scores(o, score));
  if (o.packed) griddepcontrol_wait();  // the offsets are read below
  const GradientWork w(o, t, p);
  const auto where_it_exists = [&](const std::function<void()>& work) {
    o.packed ? if_(w.exists(), work) : work();
  };
  k.warpgroups(1, 24, [&](u32) {
    elect([&] {
      griddepcontrol_wait();
      where_it_exists([&] { load_gradient(t, r, w, p); });
      griddepcontrol_launch_dependents();
    });
    if (r.dQ)
      if_((warp_index() >= 1) & (warp_index() <= t.kConsumers) & (laneid() == 0), [&] {
        griddepcontrol_wait();
        where_it_exists([&] { add_sums(o, t, r, w, p, warp_index() - 1); });
      });
  });
  k.warpgroups(t.kConsumers, 240, [&](u32 wg) {
    griddepcontrol_wait();
    where_it_exists([&] {
      if (o.type == DType::f16)
        GradientConsumer<f16>(o, t, score, r, w, p, wg).run();
      else
        GradientConsumer<bf16>(o, t, score, r, w, p, wg).run();
    });
  });
  return k;
}

}  // namespace ptxbuilder::kernels
