// Attention of 64 queries by one warpgroup, whose softmax is computed while the tensor cores multiply: the
// scores of the next keys are read with the sums of the last still in flight, which are then rescaled, and
// the probabilities are A of a product in registers.
//
//   overlapped_softmax_test [--device=emulator|cuda|auto]
#include "ptxbuilder/product/mma.h"
#include "ptxbuilder/tile/pipeline.h"
#include "register_tile_kit.h"

using namespace ptxbuilder;
using namespace ptxbuilder::test;

namespace {

constexpr int kQueries = 64, kDepth = 64, kBlock = 64;  // of keys at a time

// O[q, d] = sum_n softmax_n(Q[q, :] . K[n, :] / sqrt(kDepth)) V[n, d], of keys in whole blocks.
Kernel attention(int blocks) {
  Kernel k("attention");
  auto [Q, K, V, O] = k.params<TensorMap, TensorMap, TensorMap, gptr<f32>>("Q", "K", "V", "O");
  auto sQ = k.shared<f16>({kQueries, kDepth}, Swizzle128B, 1, "Q");
  auto sK = k.shared<f16>({kBlock, kDepth}, Swizzle128B, 2, "K");
  auto sV = k.shared<f16>({kBlock, kDepth}, Swizzle128B, 2, "V");
  Barriers queries(k, {1});
  Pipeline keys(k, 2, {sK}, 1), values(k, 2, {sV}, 1);
  u32 count = blocks;

  k.warpgroups(1, 40, [&, Q = Q, K = K, V = V](u32) {
    elect([&] {
      auto next_keys = keys.producer();
      auto next_values = values.producer();
      tma_load(sQ[0].expecting(queries[0]), Q, 0, 0);
      for_(0, count, [&](u32 j) {
        auto s = next_keys.acquire();
        tma_load(sK[s], K, 0, j * kBlock);
        auto t = next_values.acquire();
        tma_load(sV[t], V, 0, j * kBlock);
      });
    });
  });

  k.warpgroups(1, 232, [&, O = O](u32) {
    auto full_keys = keys.consumer();
    auto full_values = values.consumer();
    Accumulator scores(kQueries, kBlock), sums(kQueries, kDepth);
    const float scale = 1.4426950408889634f / std::sqrt(static_cast<float>(kDepth));  // for powers of two

    barrier_wait(queries[0], 0);
    auto s = full_keys.wait();
    wgmma_group([&] { mma(scores, sQ[0], sK[s]); });
    wgmma_wait(0);
    full_keys.release(s);
    RegisterTile<f32> first = load<f32>(scores) * scale;
    Var<RegisterTile<f32>> most(reduce_rows(Reduction::max, first));
    RegisterTile<f32> p = exp2(first - broadcast(most.value(), first.layout()), Approx::yes);
    Var<RegisterTile<f32>> total(reduce_rows(Reduction::add, p));
    Var<RegisterTile<f16>> probabilities(astype<f16>(p));

    for_(1, count, [&](u32) {
      auto next = full_keys.wait();
      scores.zero();
      wgmma_group([&] { mma(scores, sQ[0], sK[next]); });
      auto last = full_values.wait();
      wgmma_group([&] { mma(sums, probabilities.value(), sV[last].transposed()); });
      wgmma_wait(1);  // the scores are there; the sums may still be in flight
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
    store(O, load<f32>(sums) / broadcast(total.value(), sums.layout()));
  });
  return k;
}

std::vector<double> expected(const Matrix& q, const Matrix& k, const Matrix& v, int keys) {
  auto at = [](const Matrix& m, int i, int j) {
    return m.values[static_cast<size_t>(i * m.extent.cols + j)];
  };
  std::vector<double> all;
  for (int i = 0; i < kQueries; ++i) {
    std::vector<double> weights;
    double sum = 0;
    for (int n = 0; n < keys; ++n) {
      double dot = 0;
      for (int d = 0; d < kDepth; ++d) dot += at(q, i, d) * at(k, n, d);
      weights.push_back(std::exp(dot / std::sqrt(static_cast<double>(kDepth))));
      sum += weights.back();
    }
    for (int d = 0; d < kDepth; ++d) {
      double o = 0;
      for (int n = 0; n < keys; ++n) o += weights[static_cast<size_t>(n)] * at(v, n, d);
      all.push_back(o / sum);
    }
  }
  return all;
}

}  // namespace

TEST_CASE("attention with a softmax that overlaps products") {
  for (int blocks : {1, 2, 5}) {
    const int keys = blocks * kBlock;
    Matrix q = random_matrix(DType::f16, {kQueries, kDepth}, -4, 4),
           k = random_matrix(DType::f16, {keys, kDepth}, -4, 4),
           v = random_matrix(DType::f16, {keys, kDepth}, -1, 1);
    for (Matrix* m : {&q, &k, &v}) m->tensor = true;
    const std::vector<double> wanted = expected(q, k, v, keys);
    const int schedules = device_name == "cuda" ? 3 : 20;
    for (int seed = 0; seed < schedules; ++seed) {
      CAPTURE(seed);
      check_equal(result_of(attention(blocks), {q, k, v}, {DType::f32, {kQueries, kDepth}, {}},
                            static_cast<uint64_t>(seed)),
                  wanted, fmt::format("{} blocks", blocks), 4e-3, 4e-3);
    }
  }
}
