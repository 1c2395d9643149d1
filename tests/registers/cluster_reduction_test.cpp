// Tests repeated reductions of scalars and tiles over the CTAs of a cluster, on every schedule of the
// emulator.
//
//   cluster_reduction_test [--device=emulator|cuda|auto]
#include "ptxbuilder/registers/cluster_reduction.h"

#include "library_kit.h"
#include "misuse_kit.h"
#include "register_tile_kit.h"

namespace ptxbuilder::test::cluster_reduction_test {
namespace {

double of(Reduction operation, double a, double b) {
  switch (operation) {
    case Reduction::add:
      return a + b;
    case Reduction::max:
      return std::max(a, b);
    case Reduction::min:
      return std::min(a, b);
    default:
      return a * b;
  }
}

constexpr int kTurns = 5, kThreads = 256;

// Each thread has a value for each turn. The loop reduces the values and stores the result immediately:
// out[cta][turn][thread].
template <class T>
void check_scalars(uint32_t ctas, Reduction operation, uint64_t seed) {
  Kernel k("scalars");
  auto [from, out] = k.params<gptr<T>, gptr<T>>("from", "out");
  k.threads(kThreads);
  k.cluster(ctas);
  ClusterReduction across(k);
  u32 place = ctaid_x() * kTurns * kThreads + tid_x();
  sync_cluster();
  for_(0, u32(kTurns), [&, from = from, out = out](u32 turn) {
    T x = from[place + turn * kThreads];
    out[place + turn * kThreads] = across.reduce(operation, x);
  });
  const size_t each = size_t{kTurns} * kThreads;
  const Matrix in = random_matrix(T::dtype, {static_cast<int>(2 * ctas), static_cast<int>(each)},
                                  T::dtype == DType::u32 ? 0 : -4, 4);
  std::vector<double> expected;
  for (uint32_t cta = 0; cta < 2 * ctas; ++cta)
    for (size_t i = 0; i < each; ++i) {
      const size_t first = cta / ctas * ctas;
      double sum = in.values[first * each + i];
      for (size_t other = first + 1; other < first + ctas; ++other)
        sum = rounded(T::dtype, of(operation, sum, in.values[other * each + i]));
      expected.push_back(sum);
    }
  check_equal(
      result_of(std::move(k), {in}, {T::dtype, {static_cast<int>(expected.size()), 1}, {}}, seed, 2 * ctas),
      expected, fmt::format("{} of {} CTAs, {}", static_cast<int>(operation), ctas, name(T::dtype)));
}

}  // namespace

TEST_CASE("each thread's scalar, turn after turn, by clusters of 1 to 8 CTAs") {
  for (uint32_t ctas : {1u, 2u, 4u, 8u})
    for (uint64_t seed : {0u, 1u, 5u}) {
      check_scalars<f32>(ctas, Reduction::add, seed);
      check_scalars<u32>(ctas, Reduction::max, seed);
      check_scalars<s32>(ctas, Reduction::min, seed);
    }
  check_scalars<f32>(3, Reduction::prod, 0);
  check_scalars<f32>(3, Reduction::max, 0);
}

// Computes a softmax of the rows of a matrix, with some columns in each CTA of a cluster. The greatest
// element is subtracted, and the exponentials are divided by their sum. One role reduces, and the other does
// not take part.
TEST_CASE("tiles and rows, two reductions of different size in turn, in a role next to another") {
  constexpr int kRows = 64, kCols = 32;
  for (uint32_t ctas : {2u, 4u})
    for (uint64_t seed : {0u, 1u, 5u, 9u}) {
      Kernel k("rows");
      auto [from, out] = k.params<gptr<f32>, gptr<f32>>("from", "out");
      k.cluster(ctas);
      ClusterReduction across(k);
      k.warpgroups(1, 0, [&](u32) {});
      k.warpgroups(2, 0, [&, from = from, out = out](u32 group) {
        for_(0, u32(3), [&](u32 turn) {
          u32 place = ((ctaid_x() * 3 + turn) * 2 + group) * (kRows * kCols);
          auto x = load(from + place, wgmma_layout(kRows, kCols));
          auto most = across.reduce(Reduction::max, reduce_rows(Reduction::max, x));
          auto sums = across.reduce(Reduction::add, astype<bf16>(x - most));
          store(out + place, astype<f32>(sums) + most);
        });
      });
      const size_t each = size_t{6} * kRows * kCols;
      const Matrix in = random_matrix(DType::f32, {static_cast<int>(ctas), static_cast<int>(each)}, -4, 4);
      std::vector<double> expected;
      for (uint32_t cta = 0; cta < ctas; ++cta)
        for (size_t i = 0; i < each; ++i) {
          double most = -1e9;
          float sum = 0;
          for (size_t other = 0; other < ctas; ++other)
            for (size_t col = 0; col < kCols; ++col)
              most = std::max(most, in.values[other * each + i / kCols * kCols + col]);
          for (size_t other = 0; other < ctas; ++other)
            sum += static_cast<float>(
                rounded(DType::bf16, rounded(DType::f32, in.values[other * each + i] - most)));
          expected.push_back(rounded(DType::f32, rounded(DType::bf16, sum) + most));
        }
      check_equal(
          result_of(std::move(k), {in}, {DType::f32, {static_cast<int>(expected.size()), 1}, {}}, seed, ctas),
          expected, fmt::format("{} CTAs, seed {}", ctas, seed));
    }
}

TEST_CASE("along an axis of a cluster that has two") {
  Kernel k("axes");
  auto [from, out] = k.params<gptr<f32>, gptr<f32>>("from", "out");
  k.cluster(2, 2);
  ClusterReduction along_x(k, ClusterAxis::x), along_y(k, ClusterAxis::y);
  sync_cluster();
  f32 x = from[cluster_ctarank()];
  f32 of_x = along_x.reduce(Reduction::add, x), of_y = along_y.reduce(Reduction::max, x);
  f32 of_all = along_y.reduce(Reduction::add, of_x);
  if_(tid_x() == 0u, [&, out = out] {
    out[cluster_ctarank() * 3] = of_x;
    out[cluster_ctarank() * 3 + 1] = of_y;
    out[cluster_ctarank() * 3 + 2] = of_all;
  });
  static std::unique_ptr<runtime::Device> device = runtime::open_device(device_name);
  CompilerOptions options;
  options.cache = false;
  options.assemble = !device->wants_ptx();
  Compiled compiled = Compiler(options).compile(std::move(k));
  runtime::LoadedKernel kernel(*device, options.assemble ? compiled.cubin : compiled.ptx, compiled.signature);
  runtime::Buffer in = runtime::Buffer::of(*device, std::vector<float>{1, 2, 4, 8}),
                  to = runtime::Buffer::of(*device, std::vector<float>(12));
  kernel.launch({.grid = {2, 2}}, {runtime::pointer(in, DType::f32), runtime::pointer(to, DType::f32)});
  device->synchronize();
  CHECK(to.copy_out<float>() == std::vector<float>{3, 4, 15, 3, 8, 15, 12, 4, 15, 12, 8, 15});
}

TEST_CASE("misuse") {
  check_cases({
      {"two axes, and none is named",
       {"cluster reduction: the cluster has 2 x 2 x 1 CTAs along several axes; choose one, as in "
        "ClusterReduction(k, ClusterAxis::x)"},
       [](bool bad) {
         Kernel k("k");
         k.cluster(2, 2);
         HERE ClusterReduction across = bad ? ClusterReduction(k) : ClusterReduction(k, ClusterAxis::x);
         sync_cluster();
         across.reduce(Reduction::add, f32(1));
         done(k);
       }},
      {"two roles",
       {"cluster reduction: another role has already called this ClusterReduction",
        "make one ClusterReduction for each role"},
       [](bool bad) {
         Kernel k("k");
         k.cluster(2);
         ClusterReduction first(k), second(k);
         k.warpgroups(1, 0, [&](u32) { first.reduce(Reduction::add, f32(1)); });
         k.warpgroups(1, 0, [&](u32) {
           second.reduce(Reduction::add, f32(1));
           HERE(bad ? first : second).reduce(Reduction::add, f32(1));
         });
         done(k);
       }},
      {"threads that are set after the call",
       {"cluster reduction: 128 threads call it, but the CTA has 256: call k.threads() before it"},
       [](bool bad) {
         Kernel k("k");
         k.cluster(2);
         if (!bad) k.threads(256);
         ClusterReduction across(k);
         sync_cluster();
         HERE across.reduce(Reduction::add, f32(1));
         if (bad) k.threads(256);
         done(k);
       }},
      {"a cluster that is set after it",
       {"cluster: 2 x 1 x 1 CTAs were requested after roles or barriers had been made for 1"},
       [](bool bad) {
         Kernel k("k");
         if (!bad) k.cluster(2);
         ClusterReduction across(k);
         if (bad) {
           HERE k.cluster(2);
         }
         sync_cluster();
         across.reduce(Reduction::add, f32(1));
         done(k);
       }},
  });
}

}  // namespace ptxbuilder::test::cluster_reduction_test
