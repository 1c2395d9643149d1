// Tests pipelines whose producer lends stages to consumers. The consumers write data to the stages, and store
// it to global memory.
//
//   lent_stage_test [--device=emulator|cuda|auto]
#include "copy_kit.h"
#include "library_kit.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/bulk.h"
#include "ptxbuilder/tile/pipeline.h"
#include "ptxbuilder/tile/tma.h"
#include "runtime/emulator/emulator.h"

namespace ptxbuilder::test::lent_stage_test {
namespace {

constexpr int kTiles = 7, kRows = 32, kColumns = 64;

// Computes D = 2 S for tiles that are stacked vertically. Two consumers process each tile. Its stage is lent
// to them alternately, or to both, so that each writes half of it.
Kernel doubled(int stages, bool to_both) {
  Kernel k("doubled");
  auto [S, D] = k.params<TensorMap, TensorMap>("S", "D");
  SharedTile tile = k.shared<f32>({kRows, kColumns}, SwizzleNone, stages, "tile");
  Pipeline pipe(k, stages, {tile}, 2);
  k.warpgroups(1, 0, [&](u32) {
    elect([&] {
      auto ring = pipe.producer();
      for_(0, u32(kTiles), [&](u32 i) {
        tma_load(tile[ring.acquire()], S, 0, i * kRows);
        ring.lend();
      });
    });
  });
  k.warpgroups(2, 0, [&](u32 wg) {
    auto ring = pipe.consumer();
    Var<Stage> leaving(ring.none());
    const auto free = [&] {
      cp_async_bulk_wait_group_read(0);
      bar_warp_sync(0xffffffff);
      if (to_both)
        ring.release(leaving);
      else
        ring.give_back(leaving, pred(true));
      leaving = ring.none();
    };
    const auto send = [&](const RegisterTile<f32>& x, const TileView& place, u32 row) {
      store(place, x);
      fence_proxy_async<Space::shared>();
      sync_warpgroup();
      elect([&] {
        tma_store(D, place, 0, row);
        cp_async_bulk_commit_group();
      });
    };
    for_(0, u32(kTiles), [&](u32 i) {
      ring.unify();
      const Stage s = ring.wait();
      if (to_both) {
        const auto x = load<f32>(tile[s].rows(wg * (kRows / 2), kRows / 2)) * 2;
        sync_warpgroup();
        ring.release(s);
        const Stage lent = ring.wait();
        leaving = lent;
        send(x, tile[lent].rows(wg * (kRows / 2), kRows / 2), i * kRows + wg * (kRows / 2));
        free();
        return;
      }
      const auto x = load<f32>(tile[s]) * 2;
      sync_warpgroup();
      ring.release(s);
      if_(
          i % 2 == wg,
          [&] {
            const Stage lent = ring.wait();
            leaving = lent;
            send(x, tile[lent], i * kRows);
            free();
          },
          [&] { ring.skip(1); });
    });
  });
  return k;
}

}  // namespace

TEST_CASE("a lent stage is written, sent and handed back, by one consumer or by all") {
  Running running;
  auto* emulator = dynamic_cast<runtime::Emulator*>(running.device.get());
  std::vector<float> values(static_cast<size_t>(kTiles * kRows * kColumns));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1009);
  const auto from = runtime::Buffer::of(*running.device, values);
  runtime::Buffer to(*running.device, values.size() * 4);
  for (const bool to_both : {false, true})
    for (const int stages : {2, 3}) {
      CAPTURE(stages);
      const Compiled compiled = running.compile(doubled(stages, to_both));
      runtime::LoadedKernel kernel(*running.device, compiled.ptx, compiled.signature);
      const auto map = [&](const runtime::Buffer& b) {
        return runtime::tensor(b, DType::f32, std::array<uint64_t, 2>{kColumns, kTiles * kRows},
                               std::array<uint64_t, 1>{kColumns * 4});
      };
      for (uint64_t seed = 0; seed < (emulator ? 50 : 1); ++seed) {
        if (emulator) emulator->seed(seed);
        to.fill(0xff);
        kernel.launch({.grid = {1}}, {map(from), map(to)});
        running.device->synchronize();
        const auto got = to.copy_out<float>();
        for (size_t i = 0; i < got.size(); ++i) REQUIRE(got[i] == 2 * values[i]);
      }
    }
}

// More warpgroups than `consumers` release every stage. The twin has the right number.
TEST_CASE("emulator: miscounted consumers are reported") {
  auto run = [](int consumers) {
    Kernel k("miscounted");
    auto [out] = k.params<gptr<f32>>("out");
    SharedTile tile = k.shared<f32>({1, 128}, SwizzleNone, 2, "tile");
    Pipeline pipe(k, 2, {tile}, consumers);
    k.warpgroups(1, 40, [&, out = out](u32) {
      elect([&] {
        auto ring = pipe.producer();
        for_(0, u32(8), [&](u32 i) { bulk_load(tile[ring.acquire()], out, i * 128); });
      });
    });
    k.warpgroups(2, 40, [&](u32) {
      auto ring = pipe.consumer();
      for_(0, u32(8), [&](u32) { ring.release(ring.wait()); });
    });
    Running running;
    const Compiled compiled = running.compile(std::move(k));
    runtime::LoadedKernel kernel(*running.device, compiled.ptx, compiled.signature);
    const auto memory = runtime::Buffer::of(*running.device, std::vector<float>(1024));
    kernel.launch({.grid = {1}}, {runtime::pointer(memory, DType::f32)});
    running.device->synchronize();
  };
  if (device_name != "emulator") return test::skip("the emulator's report");
  const std::string text = error_of([&] { run(1); });
  CAPTURE(text);
  CHECK(contains(text, "mbarrier empty["));
  CHECK(contains(text, " warps arrive at it, which is right only where they take phases in turn"));
  CHECK(contains(text, "a Pipeline's stage expects 4 arrivals for each of the pipeline's `consumers`"));
  run(2);
}

}  // namespace ptxbuilder::test::lent_stage_test
