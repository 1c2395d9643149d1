// Tests loops over grids and their orders, on the host and on a device: the documented cases of Pallas, named
// axes, and steps from a counter.
//
//   scheduler_test [--device=emulator|cuda|auto]
#include "ptxbuilder/tile/scheduler.h"

#include <fmt/format.h>

#include <set>

#include "copy_kit.h"
#include "library_kit.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/emit_pipeline.h"
#include "ptxbuilder/tile/raster.h"
#include "ptxbuilder/tile/semaphore.h"
#include "runtime/emulator/emulator.h"

namespace ptxbuilder::test::scheduler_test {
namespace {

using Words = std::vector<uint32_t>;
constexpr uint32_t kNone = ~0u;

// Compiles a kernel once, and launches it on several schedules with poisoned output. `check` is called with
// the output.
void on_schedules(const Running& running, Kernel kernel, runtime::Dim3 grid, int schedules, size_t words,
                  const std::function<std::vector<runtime::Argument>(const runtime::Buffer&)>& arguments,
                  const std::function<void(const Words&)>& check) {
  const Compiled compiled = running.compile(std::move(kernel));
  runtime::LoadedKernel loaded(*running.device, compiled.ptx, compiled.signature);
  auto* emulator = dynamic_cast<runtime::Emulator*>(running.device.get());
  runtime::Buffer out(*running.device, words * 4);
  for (int seed = 0; seed < (emulator ? schedules : 1); ++seed) {
    if (emulator) emulator->seed(static_cast<uint64_t>(seed));
    out.fill(0xff);
    loaded.launch({.grid = grid}, arguments(out));
    running.device->synchronize();
    check(out.copy_out<uint32_t>());
  }
}

}  // namespace

TEST_CASE("planar_snake: Pallas' documented orders, on the host") {
  const auto row = [](int rows, int cols, int minor, int width, int row) {
    std::vector<int64_t> numbers(static_cast<size_t>(cols));
    for (int64_t i = 0; i < int64_t{rows} * cols; ++i)
      if (const HostTileIndex at = planar_snake(i, rows, cols, minor, width); at.row == row)
        numbers[static_cast<size_t>(at.col)] = i;
    return numbers;
  };
  using Row = std::vector<int64_t>;
  CHECK(row(8, 8, 0, 2, 0) == Row{0, 2, 4, 6, 8, 10, 12, 14});
  CHECK(row(8, 8, 0, 2, 1) == Row{1, 3, 5, 7, 9, 11, 13, 15});
  CHECK(row(8, 8, 0, 2, 2) == Row{30, 28, 26, 24, 22, 20, 18, 16});
  CHECK(row(5, 5, 0, 3, 0) == Row{0, 3, 6, 9, 12});
  CHECK(row(5, 5, 0, 3, 3) == Row{23, 21, 19, 17, 15});
  CHECK(row(8, 8, 1, 2, 0) == Row{0, 1, 30, 31, 32, 33, 62, 63});
  // Checks that every place occurs once.
  for (int rows : {1, 2, 5, 8})
    for (int cols : {1, 3, 8})
      for (int minor : {0, 1})
        for (int width : {1, 2, 3, 8}) {
          std::set<std::pair<int64_t, int64_t>> seen;
          for (int64_t i = 0; i < int64_t{rows} * cols; ++i) {
            const HostTileIndex at = planar_snake(i, rows, cols, minor, width);
            CHECK((at.row >= 0 && at.row < rows && at.col >= 0 && at.col < cols));
            seen.insert({at.row, at.col});
          }
          CHECK(seen.size() == static_cast<size_t>(rows * cols));
        }
}

TEST_CASE("planar_snake on device values equals that of the host") {
  Running running;
  for (int minor : {0, 1})
    for (int width : {1, 2, 3, 8}) {
      Kernel k("snake");
      auto [out, rows, cols] = k.params<gptr<u32>, u32, u32>("out", "rows", "cols");
      if_(tid_x() < rows * cols, [&, out = out, rows = rows, cols = cols] {
        const TileIndex at = planar_snake(tid_x(), rows, cols, minor, width);
        out[tid_x()] = at.row * 100 + at.col;
      });
      const Compiled compiled = running.compile(std::move(k));
      runtime::LoadedKernel loaded(*running.device, compiled.ptx, compiled.signature);
      for (uint32_t r : {1u, 2u, 5u, 8u})
        for (uint32_t c : {1u, 3u, 8u}) {
          runtime::Buffer got(*running.device, 128 * 4);
          loaded.launch({.grid = {1}},
                        {runtime::pointer(got, DType::u32), runtime::scalar(r), runtime::scalar(c)});
          running.device->synchronize();
          const Words words = got.copy_out<uint32_t>();
          for (uint32_t i = 0; i < r * c; ++i) {
            const HostTileIndex at = planar_snake(i, r, c, minor, width);
            CHECK(words[i] == at.row * 100 + at.col);
          }
        }
    }
}

TEST_CASE("nd_loop: a grid of 2 x 3 among four, sizes of the host and of the device, tilings, a carry") {
  Running running;
  constexpr uint32_t kCtas = 4, kMost = 8;
  const auto run = [&](bool device_sizes, std::vector<int> tiling, int rows, int cols,
                       const std::vector<Words>& wanted) {
    Kernel k("loop");
    auto [out, m, n] = k.params<gptr<u32>, u32, u32>("out", "m", "n");
    k.grid({{"cta", "4"}});
    const GridShape grid = device_sizes ? GridShape{{"m", m}, {"n", n}} : GridShape{{"m", rows}, {"n", cols}};
    const u32 cta = axis_index("cta");
    const u32 sum = nd_loop(grid, collective({"cta"}), {.tiling = tiling}, u32(0),
                            [&, out = out](const LoopStep& s, const u32& before) {
                              const u32 value = s.index["m"] * 10 + s.index["n"];
                              out[cta * kMost + s.number] = value;
                              return before + value;
                            });
    out[cta * kMost + (kMost - 1)] = sum;
    on_schedules(
        running, std::move(k), {kCtas}, 20, kCtas * kMost,
        [&](const runtime::Buffer& b) {
          return std::vector{runtime::pointer(b, DType::u32), runtime::scalar(static_cast<uint32_t>(rows)),
                             runtime::scalar(static_cast<uint32_t>(cols))};
        },
        [&](const Words& got) {
          for (uint32_t cta = 0; cta < kCtas; ++cta) {
            Words row = wanted[cta];
            uint32_t sum = 0;
            for (uint32_t v : row) sum += v;
            row.resize(kMost - 1, kNone);
            row.push_back(sum);
            CHECK(Words(got.begin() + cta * kMost, got.begin() + (cta + 1) * kMost) == row);
          }
        });
  };
  for (bool device_sizes : {false, true}) run(device_sizes, {}, 2, 3, {{0, 11}, {1, 12}, {2}, {10}});
  // A grid of 2 x 4 has tiles of 2 x 2: (0,0) (0,1) (1,0) (1,1), and then the following columns.
  for (bool device_sizes : {false, true})
    run(device_sizes, {2, 2}, 2, 4, {{0, 2}, {1, 3}, {10, 12}, {11, 13}});
  run(false, {}, 1, 1, {{0}, {}, {}, {}});
}

TEST_CASE("nd_loop: a tiling that does not divide an axis that only the device knows traps") {
  Running running;
  const auto run = [&](uint32_t size) {
    Kernel k("loop");
    auto [m] = k.params<u32>("m");
    nd_loop({{"m", m}}, {}, {.tiling = {2}}, [](const LoopStep&) {});
    launch(running, std::move(k), {1}, {runtime::scalar(size)});
  };
  run(4);
  CHECK(contains(error_of([&] { run(5); }), "trap"));
}

TEST_CASE("named axes of the grid, the cluster and a role") {
  Running running;
  Kernel k("axes");
  auto [out] = k.params<gptr<u32>>("out");
  k.cluster({{"pair", 2}});
  k.grid({{"m", "3"}, {"n", "4"}});
  CHECK(k.signature().grid->at(0) == "4");
  CHECK(k.signature().grid->at(1) == "3");
  CHECK(k.signature().cluster == std::array<uint32_t, 3>{2, 1, 1});
  CHECK(cluster_axes({"pair"}).has(0));
  const u32 cta = axis_index("m") * axis_size("n") + axis_index("n");
  k.warpgroups("wg", 2, 0, [&, out = out](u32) {
    if_((tid_x() & 127) == 0, [&] {
      out[cta * 2 + axis_index("wg")] = axis_index("m") * 1000 + axis_index("n") * 100 +
                                        axis_index("pair") * 10 + axis_size("wg") + axis_size("pair");
    });
  });
  on_schedules(
      running, std::move(k), {4, 3}, 1, 24,
      [](const runtime::Buffer& b) { return std::vector{runtime::pointer(b, DType::u32)}; },
      [](const Words& got) {
        for (uint32_t i = 0; i < 24; ++i) {
          const uint32_t m = i / 8, n = i / 2 % 4;
          CHECK(got[i] == m * 1000 + n * 100 + n % 2 * 10 + 4);
        }
      });
}

namespace {

// Each step of a grid adds one to its place. CTAs that get their steps from a counter leave the counter at
// zero.
Kernel counted(bool roles) {
  Kernel k("counted");
  auto [out, counter, m] = k.params<gptr<u32>, gptr<u32>, u32>("out", "counter", "m");
  if (!roles) {
    dynamic_scheduling_loop(k, counter, {{"m", m}, {"n", 3}}, [&, out = out](const LoopStep& s) {
      if_(tid_x() == 0, [&] {
        const gmem at(out + (s.index["m"] * 3 + s.index["n"]));
        Semaphore(gptr<u32>(at)).signal();
      });
    });
    return k;
  }
  const DynamicSteps steps(k, counter, m * 3, 2);
  k.warpgroups(1, 0, [&](u32) { elect([&] { steps.each([](u32) {}); }); });
  k.warpgroups(2, 0, [&, out = out](u32 wg) {
    steps.each([&](u32 step) { if_((tid_x() & 127) == 0, [&] { Semaphore(out + step).signal(wg + 1); }); });
  });
  return k;
}

}  // namespace

TEST_CASE(
    "steps from a counter: each is executed once, in roles and outside, and the counter is zero again") {
  Running running;
  constexpr uint32_t kSteps = 21;
  for (bool roles : {false, true}) {
    CAPTURE(roles);
    const Compiled compiled = running.compile(counted(roles));
    runtime::LoadedKernel loaded(*running.device, compiled.ptx, compiled.signature);
    auto* emulator = dynamic_cast<runtime::Emulator*>(running.device.get());
    runtime::Buffer out(*running.device, kSteps * 4), counter(*running.device, 4);
    counter.fill(0);
    for (uint64_t seed = 0; seed < (emulator ? 20u : 2u); ++seed) {
      if (emulator) emulator->seed(seed);
      out.fill(0);
      loaded.launch({.grid = {4}}, {runtime::pointer(out, DType::u32), runtime::pointer(counter, DType::u32),
                                    runtime::scalar(kSteps / 3)});
      running.device->synchronize();
      CHECK(out.copy_out<uint32_t>() == Words(kSteps, roles ? 3 : 1));
      CHECK(counter.copy_out<uint32_t>() == Words(1));
    }
  }
}

// The pipeline's tiles come from the counter, and each has a row of blocks. The row's first block is loaded
// once more, for y = x + that block. The last output of a row is the sum of all blocks, and is written when
// the tile ends.
TEST_CASE("a pipeline whose CTAs get their tiles from a counter") {
  Running running;
  constexpr int kRows = 56, kCols = 96;
  Kernel k("tiles");
  auto [X, Y, Z, counter] = k.params<TensorMap, TensorMap, TensorMap, gptr<u32>>("X", "Y", "Z", "counter");
  const auto first = [](const GridIndex& i) { return BlockIndex{i["row"], 0}; };
  const auto block = [](const GridIndex& i) { return BlockIndex{i["row"], i["col"]}; };
  const DynamicSteps rows(k, counter, kRows / 8, 1);
  emit_pipeline_warp_specialized(
      k, {{"col", kCols / 32}},
      {{X, DType::f32, {8, 32}, block}, {X, DType::f32, {8, 32}, first, {.fixed = true}}},
      {{Y, DType::f32, {8, 32}, block}, {Z, DType::f32, {8, 32}, first, {.fixed = true}}},
      {.stages = 3, .tiles = rows.order([](u32 row) { return GridIndex({"row"}, {row}); })},
      [](PipelineStep& s) {
        const auto sum = load<f32>(s.in(0)) + load<f32>(s.in(1));
        store(s.out(0), sum);
        if_(
            s.number() == 0, [&] { store(s.out(1), sum); },
            [&] { store(s.out(1), load<f32>(s.out(1)) + sum); });
      });
  std::vector<float> x(kRows * kCols), wanted = x, sums(kRows * 32);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 1009);
  for (size_t i = 0; i < x.size(); ++i) {
    wanted[i] = x[i] + x[i / kCols * kCols + i % 32];
    sums[i / kCols * 32 + i % 32] += wanted[i];
  }
  const auto from = runtime::Buffer::of(*running.device, x);
  runtime::Buffer to(*running.device, x.size() * 4), totals(*running.device, sums.size() * 4),
      number(*running.device, 4);
  number.fill(0);
  const Compiled compiled = running.compile(std::move(k));
  runtime::LoadedKernel loaded(*running.device, compiled.ptx, compiled.signature);
  auto* emulator = dynamic_cast<runtime::Emulator*>(running.device.get());
  for (uint64_t seed = 0; seed < (emulator ? 20u : 1u); ++seed) {
    if (emulator) emulator->seed(seed);
    to.fill(0xff);
    loaded.launch(
        {.grid = {3}},
        {runtime::tensor(from, DType::f32, {kCols, kRows}), runtime::tensor(to, DType::f32, {kCols, kRows}),
         runtime::tensor(totals, DType::f32, {32, kRows}), runtime::pointer(number, DType::u32)});
    running.device->synchronize();
    REQUIRE(to.copy_out<float>() == wanted);
    REQUIRE(totals.copy_out<float>() == sums);
  }
}

// If one of the two barriers is missing, a thread of the loop may read the number of the next step. A reader
// in a role may hand back a place before all lanes have read it.
TEST_CASE("emulator: mutants of steps from a counter are reported") {
  Running running;
  running.device = runtime::open_emulator();
  struct Mutant {
    bool roles;
    const char* dropped;  // the last of these instructions is removed, not counting `spared` later ones
    int spared;
  };
  for (const Mutant& m :
       {Mutant{false, nullptr, 0}, Mutant{false, "bar.sync", 0}, Mutant{false, "bar.sync", 1},
        Mutant{true, nullptr, 0}, Mutant{true, "bar.warp.sync", 0}}) {
    const Compiled compiled = running.compile(counted(m.roles));
    std::string text = compiled.ptx;
    if (m.dropped) {
      size_t at = text.rfind(m.dropped);
      for (int i = 0; i < m.spared; ++i) at = text.rfind(m.dropped, at - 1);
      text.replace(at, text.find('\n', at) - at, "");
    }
    runtime::LoadedKernel loaded(*running.device, text, compiled.signature);
    runtime::Buffer out(*running.device, 21 * 4), counter(*running.device, 4);
    out.fill(0), counter.fill(0);
    const std::string report = error_of([&] {
      for (uint64_t seed = 0; seed < 20; ++seed) {
        dynamic_cast<runtime::Emulator&>(*running.device).seed(seed);
        loaded.launch({.grid = {2}}, {runtime::pointer(out, DType::u32),
                                      runtime::pointer(counter, DType::u32), runtime::scalar(7u)});
        running.device->synchronize();
      }
    });
    CAPTURE(m.roles);
    CAPTURE(report);
    CHECK(contains(report, "race") == (m.dropped != nullptr));
  }
}

}  // namespace ptxbuilder::test::scheduler_test
