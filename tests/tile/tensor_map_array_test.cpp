// Tests tensor maps in global memory. The device chooses one of a group of tensors that have their own
// addresses and extents. Also tests errors when the kernel is built and when it is launched.
//
//   tensor_map_array_test [--device=emulator|cuda|auto]
#include <fmt/format.h>

#include "bf16_kit.h"
#include "copy_kit.h"
#include "kernels/export/export.h"
#include "misuse_kit.h"
#include "ptxbuilder/product/mma.h"
#include "ptxbuilder/product/store.h"
#include "ptxbuilder/tile/barrier.h"
#include "ptxbuilder/tile/commit.h"
#include "ptxbuilder/tile/pipeline.h"

namespace ptxbuilder::test::tensor_map_array_test {
namespace {

constexpr int kTile = 64, kSteps = 2, kColumns = 64;
constexpr std::array<uint32_t, 3> kRows = {40, 200, 128};  // rows of the groups' tensors

// Computes D[g] = A[g] B^T, with a CTA for each group.
Kernel grouped() {
  Kernel k("grouped");
  auto [As, B, Ds, rows] =
      k.params<TensorMapArray, TensorMap, TensorMapArray, gptr<u32>>("As", "B", "Ds", "rows");
  auto sA = k.shared<bf16>({kTile, kTile}, Swizzle128B, 2),
       sB = k.shared<bf16>({kColumns, kTile}, Swizzle128B, 2);
  Pipeline pipe(k, 2, {sA, sB}, 1);
  const u32 group = ctaid_x(), tiles = ceil_div(rows[group].value(), u32(kTile));
  k.warpgroups(1, 0, [&, a = As, b = B](u32) {
    elect([&] {
      auto ring = pipe.producer();
      for_(0, tiles, [&](u32 tile) {
        for (int step = 0; step < kSteps; ++step) {
          auto s = ring.acquire();
          tma_load(sA[s], a[group], step * kTile, tile * kTile);
          tma_load(sB[s], b, step * kTile, 0);
        }
      });
    });
  });
  k.warpgroups(1, 0, [&, d = Ds](u32) {
    auto ring = pipe.consumer();
    Accumulator acc(kTile, kColumns);
    for_(0, tiles, [&](u32 tile) {
      acc.zero();
      for (int step = 0; step < kSteps; ++step) {
        auto s = ring.wait();
        wgmma_group([&] { mma(acc, sA[s], sB[s]); });
        wgmma_wait(0);
        ring.release(s);
      }
      store<f32>(d[group], acc, tile * kTile, 0);
    });
  });
  return k;
}

// Each CTA adds the first 32 x 32 elements of A[g] to those of D[2 - g].
Kernel joined() {
  Kernel k("joined");
  auto [As, Ds] = k.params<TensorMapArray, TensorMapArray>("As", "Ds");
  auto tile = k.shared<f32>({32, 32}, Swizzle128B);
  Barriers bar(k, {1});
  sync_threads();
  const u32 group = ctaid_x();
  elect([&] {
    tma_prefetch(tile[0], As[group], 0, 0);
    tma_load(tile[0].expecting(bar[0]), As[group], 0, 0);
  });
  barrier_wait(bar[0], 0);
  reduce_out(CopyReduction::add, Ds[u32(2) - group], tile[0], 0, 0);
  return k;
}

runtime::LoadedKernel loaded(const Running& running, Kernel kernel) {
  const Compiled compiled = running.compile(std::move(kernel));
  return runtime::LoadedKernel(*running.device, compiled.ptx, compiled.signature);
}

}  // namespace

TEST_CASE("a product of groups reads its tensors through maps in memory") {
  constexpr size_t K = kSteps * kTile;
  Running running;
  runtime::LoadedKernel kernel = loaded(running, grouped());
  const std::vector<float> b = numbers(kColumns * K, 40503);
  const runtime::Buffer db = runtime::Buffer::of(*running.device, as_bf16(b)),
                        rows = runtime::Buffer::of(*running.device, kRows);
  std::vector<std::vector<float>> a;
  std::vector<runtime::Buffer> as, ds;
  std::vector<runtime::Argument> a_maps, d_maps;
  for (size_t g = 0; g < kRows.size(); ++g) {
    a.push_back(numbers(kRows[g] * K, 2654435761u + 2 * static_cast<uint32_t>(g)));
    as.push_back(runtime::Buffer::of(*running.device, as_bf16(a[g])));
    ds.emplace_back(*running.device, kRows[g] * kColumns * 4);
    ds[g].fill(0xff);
    a_maps.push_back(runtime::tensor(as[g], DType::bf16, {K, kRows[g]}));
    d_maps.push_back(runtime::tensor(ds[g], DType::f32, {kColumns, kRows[g]}));
  }
  const runtime::TensorMapArray in = kernel.tensor_maps("As", a_maps), out = kernel.tensor_maps("Ds", d_maps);
  CHECK(in.size() == kRows.size());
  kernel.launch({.grid = {3}}, {in, runtime::tensor(db, DType::bf16, {K, kColumns}), out,
                                runtime::pointer(rows, DType::u32)});
  running.device->synchronize();
  for (size_t g = 0; g < kRows.size(); ++g) {
    std::vector<float> wanted(kRows[g] * kColumns);
    for (size_t i = 0; i < kRows[g]; ++i)
      for (size_t j = 0; j < kColumns; ++j)
        for (size_t k = 0; k < K; ++k) wanted[i * kColumns + j] += a[g][i * K + k] * b[j * K + k];
    CAPTURE(g);
    CHECK(ds[g].copy_out<float>() == wanted);
  }
}

TEST_CASE("maps in memory serve prefetches and reductions, and the device chooses them") {
  Running running;
  runtime::LoadedKernel kernel = loaded(running, joined());
  std::vector<runtime::Buffer> as, ds;
  std::vector<runtime::Argument> a_maps, d_maps;
  for (size_t g = 0; g < 3; ++g) {
    as.push_back(
        runtime::Buffer::of(*running.device, std::vector<float>(32 * 32, static_cast<float>(g + 1))));
    ds.push_back(runtime::Buffer::of(*running.device, std::vector<float>(32 * 32, 10)));
    a_maps.push_back(runtime::tensor(as[g], DType::f32, {32, 32}));
    d_maps.push_back(runtime::tensor(ds[g], DType::f32, {32, 32}));
  }
  const runtime::TensorMapArray in = kernel.tensor_maps("As", a_maps), out = kernel.tensor_maps("Ds", d_maps);
  kernel.launch({.grid = {3}}, {in, out});
  running.device->synchronize();
  for (size_t g = 0; g < 3; ++g)
    CHECK(ds[g].copy_out<float>() == std::vector<float>(32 * 32, 13 - static_cast<float>(g)));
  if (device_name != "emulator") return;
  // The third of three CTAs has no map.
  const runtime::TensorMapArray two = kernel.tensor_maps("As", std::span(a_maps).first(2));
  CHECK_THROWS_AS((kernel.launch({.grid = {3}}, {two, out}), running.device->synchronize()), Error);
}

TEST_CASE("a parameter is chosen by the device") {
  Kernel k("chosen");
  auto [A, B, C] = k.params<TensorMap, TensorMap, TensorMap>("A", "B", "C");
  auto tile = k.shared<f32>({32, 32}, Swizzle128B);
  Barriers bar(k, {1});
  sync_threads();
  elect([&] { tma_load(tile[0].expecting(bar[0]), choose(ctaid_x(), {A, B, C}), 0, 0); });
  barrier_wait(bar[0], 0);
  reduce_out(CopyReduction::add, choose(u32(2) - ctaid_x(), {A, B, C}), tile[0], 32, 0);
  Running running;
  runtime::LoadedKernel kernel = loaded(running, std::move(k));
  std::vector<runtime::Buffer> all;
  std::vector<runtime::Argument> maps;
  for (size_t g = 0; g < 3; ++g) {
    all.push_back(
        runtime::Buffer::of(*running.device, std::vector<float>(32 * 64, static_cast<float>(g + 1))));
    maps.push_back(runtime::tensor(all[g], DType::f32, {64, 32}));
  }
  kernel.launch({.grid = {3}}, maps);
  running.device->synchronize();
  for (size_t g = 0; g < 3; ++g) {
    const std::vector<float> got = all[g].copy_out<float>();
    CHECK(got[0] == static_cast<float>(g + 1));
    CHECK(got[32] == 4);
  }
}

TEST_CASE("the sidecar says how maps in memory are encoded") {
  Kernel kernel = joined();
  const Parameter& As = kernel.signature().parameters[0];
  CHECK(As.tensor_map.box == std::vector<uint32_t>{32, 32});
  CHECK(As.dtype == DType::f32);
  CHECK(As.size_bytes() == 8);
  const std::string json = to_json(kernel.signature());
  CHECK(contains(json, "\"kind\": \"tensor_map_array\""));
  CHECK(signature_from_json(json, "joined.json") == kernel.signature());
  const command::Export e{"joined", "", {{kernel.signature(), "image"}}};
  CHECK(contains(error_of([&] { command::check(e); }), "a tensor map array of f32 'As'"));
}

TEST_CASE("arguments that are not maps of a kernel's recipe are refused") {
  Running running;
  runtime::LoadedKernel kernel = loaded(running, joined());
  const runtime::Buffer memory(*running.device, 32 * 32 * 4);
  running.device->fill(memory.address(), 0, memory.bytes());
  const runtime::Argument good = runtime::tensor(memory, DType::f32, {32, 32});
  const auto maps = [&](std::string_view parameter, std::vector<runtime::Argument> tensors) {
    return error_of([&] { kernel.tensor_maps(parameter, tensors); });
  };
  CHECK(maps("As", {good, good}) == "");
  CHECK(contains(maps("A", {good}),
                 "kernel 'joined': tensor maps were requested for 'A', but no parameter of that name takes a "
                 "tensor map array; its parameters are As, Ds"));
  CHECK(contains(maps("As", {}), "parameter 0 'As': the array has no tensor maps"));
  CHECK(contains(maps("As", {good, runtime::pointer(memory, DType::f32)}),
                 "tensor 1: it takes a tensor, but a pointer was given"));
  CHECK(contains(maps("Ds", {runtime::tensor(memory, DType::u32, {32, 32})}),
                 "parameter 1 'Ds': tensor 0: it takes a tensor of f32, but one of u32 was given"));
  CHECK(contains(maps("As", {runtime::tensor(memory, DType::f32, {32, 16, 2})}), "takes a tensor of rank 2"));
  CHECK(contains(
      maps("As", {good, runtime::tensor(memory, DType::f32, {32, 33})}),
      "tensor 1: the tensor [32, 33] of f32 with strides [128] B needs 4224 B, but its memory has 4096 B"));
  const auto launched = [&](const runtime::Argument& given) {
    const runtime::TensorMapArray own = kernel.tensor_maps("Ds", {good, good, good});
    return error_of([&] {
      kernel.launch({.grid = {1}}, {given, own});
      running.device->synchronize();
    });
  };
  const runtime::TensorMapArray own = kernel.tensor_maps("Ds", {good, good, good});
  CHECK(launched(own) == "");
  CHECK(contains(launched(runtime::pointer(memory, DType::f32)),
                 "it takes a tensor map array, but a pointer was given"));
  Kernel k("narrow");
  auto [Bs] = k.params<TensorMapArray>("Bs");
  auto tile = k.shared<f32>({16, 32}, Swizzle128B);
  tma_store(Bs[0], tile[0], 0, 0);
  const runtime::TensorMapArray other = loaded(running, std::move(k)).tensor_maps("Bs", {good});
  CHECK(contains(launched(other), "takes a tensor map array with its own recipe"));
}

TEST_CASE("maps in memory when the kernel is built") {
  check_cases({
      {"an array for two boxes",
       {"tma_store: the tensor map 'As' already serves copies with a box of 32x32 f32 elements"},
       [](bool bad) {
         Kernel k("k");
         auto [As] = k.params<TensorMapArray>("As");
         auto tile = k.shared<f32>({32, 32}, Swizzle128B);
         tma_store(As[0], tile[0], 0, 0);
         HERE tma_store(As[ctaid_x()], bad ? tile[0].rows(0, 16) : tile[0], 0, 0);
         done(k);
       }},
      {"an array that no copy uses",
       {"no copy uses the tensor map 'As', so its box is not known"},
       [](bool bad) {
         Kernel k("k");
         HERE auto [As] = k.params<TensorMapArray>("As");
         auto tile = k.shared<f32>({32, 32}, Swizzle128B);
         if (!bad) tma_store(As[0], tile[0], 0, 0);
         done(k);
       }},
      {"one of two maps, and one serves another box",
       {"tma_store: the tensor map 'B' already serves copies with a box of 32x32 f32 elements"},
       [](bool bad) {
         Kernel k("k");
         auto [A, B] = k.params<TensorMap, TensorMap>("A", "B");
         auto tile = k.shared<f32>({32, 32}, Swizzle128B);
         tma_store(B, tile[0], 0, 0);
         HERE tma_store(choose(ctaid_x(), {A, B}), bad ? tile[0].rows(0, 16) : tile[0], 0, 0);
         done(k);
       }},
      {"one of no maps",
       {"choose: no tensor maps were given; give at least one"},
       [](bool bad) {
         Kernel k("k");
         auto [A] = k.params<TensorMap>("A");
         auto tile = k.shared<f32>({32, 32}, Swizzle128B);
         HERE tma_store(choose(ctaid_x(), bad ? std::vector<TensorMap>{} : std::vector<TensorMap>{A}),
                        tile[0], 0, 0);
         done(k);
       }},
      {"a map at an address that nothing is known of",
       {"k: the tensor map is neither a parameter of this kernel nor in a TensorMapArray"},
       [](bool bad) {
         Kernel k("k");
         auto [As, p] = k.params<TensorMapArray, gptr<u32>>("As", "p");
         auto tile = k.shared<f32>({32, 32}, Swizzle128B);
         tma_store(As[0], tile[0], 0, 0);
         const TensorMap map = bad ? TensorMap(generic_address(gmem(p)).handle()) : As[1];
         HERE tma_store(map, tile[0], 0, 0);
         done(k);
       }},
  });
}

}  // namespace ptxbuilder::test::tensor_map_array_test
