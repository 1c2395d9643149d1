// attention_step: attention for blocks of 64 queries, in a single file. A producer warpgroup loads keys and
// values with TMA, and a consumer multiplies. The softmax of the next keys is computed while the tensor cores
// still add up the previous values. The sums are then rescaled, and the probabilities, in registers, are
// operand A of the next product (Dao and others, FlashAttention; Shah and others, FlashAttention-3).
#include <cmath>

#include "kernels/family/family.h"
#include "kernels/family/run.h"
#include "ptxbuilder/ir/global_tensor.h"
#include "ptxbuilder/product/collective.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/pipeline.h"

namespace ptxbuilder::kernels {
namespace {

constexpr int kDepth = 64,
              kBlock = 64;  // kDepth: columns of all tensors; kBlock: queries per CTA, and keys per step

// Computes O[q, d] = sum_n softmax_n(Q[q, :] . K[n, :] / sqrt(kDepth)) V[n, d] for each head. The rows of a
// head follow those of the previous head. The numbers of queries and keys must be multiples of a block.
Kernel attention_step(int stages) {
  Kernel k("attention_step");
  k.waive("wgmma-a-registers");  // the machine code does not have this defect; scripts/sentinel verifies this
  auto [Q, K, V, O, queries, keys] =
      k.params<TensorMap, TensorMap, TensorMap, gptr<f16>, u32, u32>("Q", "K", "V", "O", "queries", "keys");
  k.grid("extent(Q, 1) / 64");
  k.describe({{"Q", "queries: rows of 64 columns, head after head"},
              {"K", "keys, like the queries"},
              {"V", "values, like the keys"},
              {"O", "the result, like Q"},
              {"queries", "rows of a head: a multiple of 64"},
              {"keys", "rows of a head: a multiple of 64"}});
  auto sQ = k.shared<f16>({kBlock, kDepth}, Swizzle128B, 1, "Q");
  auto sK = k.shared<f16>({kBlock, kDepth}, Swizzle128B, stages, "K");
  auto sV = k.shared<f16>({kBlock, kDepth}, Swizzle128B, stages, "V");
  Barriers arrived(k, {1});  // barrier for the queries
  Pipeline key_ring(k, stages, {sK}, 1), value_ring(k, stages, {sV}, 1);
  const u32 query = ctaid_x() * kBlock, first_key = query / queries * keys, blocks = keys / kBlock;

  k.warpgroups(1, 40, [&, Q = Q, K = K, V = V](u32) {  // producer
    elect([&] {
      auto next_keys = key_ring.producer();
      auto next_values = value_ring.producer();
      tma_load(sQ[0].expecting(arrived[0]), Q, 0, query);
      producer_loop(next_keys, 0, blocks, [&](const Stage& s, u32 j) {
        tma_load(sK[s], K, 0, first_key + j * kBlock);
        auto t = next_values.acquire();
        tma_load(sV[t], V, 0, first_key + j * kBlock);
      });
    });
  });

  k.warpgroups(1, 232, [&, O = O](u32) {  // consumer
    auto full_keys = key_ring.consumer();
    auto full_values = value_ring.consumer();
    Accumulator scores(kBlock, kBlock), sums(kBlock, kDepth);
    const float scale = 1.4426950408889634f / std::sqrt(static_cast<float>(kDepth));  // converts scores to
                                                                                      // base-2 exponents

    barrier_wait(arrived[0], 0);
    auto s = full_keys.wait();
    wgmma_group([&] { mma(scores, sQ[0], sK[s]); });
    wgmma_wait(0);
    full_keys.release(s);
    RegisterTile<f32> first = load<f32>(scores) * scale;
    Var<RegisterTile<f32>> most(reduce_rows(Reduction::max, first));
    RegisterTile<f32> p = exp2(first - broadcast(most.value(), first.layout()), Approx::yes);
    Var<RegisterTile<f32>> total(reduce_rows(Reduction::add, p));
    Var<RegisterTile<f16>> probabilities(astype<f16>(p));

    for_(1, blocks, [&](u32) {
      auto next = full_keys.wait();
      scores.zero();
      wgmma_group([&] { mma(scores, sQ[0], sK[next]); });
      auto last = full_values.wait();
      wgmma_group([&] { mma(sums, probabilities.value(), sV[last].transposed()); });
      wgmma_wait(1);  // the scores are ready; the sums may still be in flight
      full_keys.release(next);
      RegisterTile<f32> x = load<f32>(scores) * scale;
      RegisterTile<f32> more = max(reduce_rows(Reduction::max, x), most.value());
      RegisterTile<f32> shrink = exp2(most.value() - more, Approx::yes);
      RegisterTile<f32> y = exp2(x - broadcast(more, x.layout()), Approx::yes);
      total = total.value() * shrink + reduce_rows(Reduction::add, y);
      most = more;
      wgmma_wait(0);
      full_values.release(last);
      store(sums, load<f32>(sums) * broadcast(shrink, sums.layout()));
      probabilities = astype<f16>(y);
    });
    auto last = full_values.wait();
    wgmma_group([&] { mma(sums, probabilities.value(), sV[last].transposed()); });
    wgmma_wait(0);
    full_values.release(last);
    GlobalTensor out(O, {nctaid_x() * kBlock, kDepth});
    store(out.inner_tile(query, 0), astype<f16>(load<f32>(sums) / broadcast(total.value(), sums.layout())));
  });
  return k;
}

// Returns the weights of the keys for one query, in float64.
std::vector<double> weights(const command::Tensor& q, const command::Tensor& k, size_t query,
                            size_t first_key, size_t keys) {
  std::vector<double> all(keys);
  double sum = 0;
  for (size_t n = 0; n < keys; ++n) {
    double dot = 0;
    for (size_t d = 0; d < kDepth; ++d) dot += q[query * kDepth + d] * k[(first_key + n) * kDepth + d];
    sum += all[n] = std::exp(dot / std::sqrt(static_cast<double>(kDepth)));
  }
  for (double& w : all) w /= sum;
  return all;
}

void run(const command::Fields& f, command::Run& run) {
  const auto heads = static_cast<size_t>(f["heads"]), queries = static_cast<size_t>(f["queries"]),
             keys = static_cast<size_t>(f["keys"]);
  command::Tensor q = run.normal(DType::f16, {kDepth, heads * queries}),
                  k = run.normal(DType::f16, {kDepth, heads * keys}),
                  v = run.normal(DType::f16, {kDepth, heads * keys}),
                  o = run.output(DType::f16, {kDepth, heads * queries});
  run.launch({q.tensor(), k.tensor(), v.tensor(), o.pointer(),
              runtime::scalar(static_cast<uint32_t>(queries)), runtime::scalar(static_cast<uint32_t>(keys))});
  // The tolerance covers the rounding of weights and O to f16, and 1e-4 for the error of scores and exp2.
  run.check(o, static_cast<double>(keys * kDepth), [&](size_t i) {
    const size_t query = i / kDepth, first_key = query / queries * keys;
    const std::vector<double> w = weights(q, k, query, first_key, keys);
    double sum = 0, magnitude = 0;
    for (size_t n = 0; n < keys; ++n) {
      const double term = w[n] * v[(first_key + n) * kDepth + i % kDepth];
      sum += term, magnitude += std::abs(term);
    }
    return command::Expected{sum, unit_roundoff(DType::f16) * (std::abs(sum) + magnitude) + 1e-4 * magnitude};
  });
  const double pairs = static_cast<double>(heads * queries) * static_cast<double>(keys);
  run.measure(4 * kDepth * pairs, 4.0 * kDepth * static_cast<double>(heads * (queries + keys)));
}

const command::Registration registration({
    .name = "attention_step",
    .summary = "attention in one file: a softmax that overlaps the products",
    .fields = {{"heads", 2, "heads of all tensors"},
               {"queries", 128, "rows of a head of Q and O", 64},
               {"keys", 256, "rows of a head of K and V", 64},
               {"stages", 2, "stages of the rings of keys and values"}},
    .build = [](const command::Fields& f) { return attention_step(f.small("stages")); },
    .run = run,
});

}  // namespace
}  // namespace ptxbuilder::kernels
