// Tests mistakes in pipelines that are unknown when a kernel is built. The emulator notes them, or a check or
// the kernel itself reports them when it runs. Each has a correct twin without a report.
#include <fmt/format.h>

#include "copy_kit.h"
#include "library_kit.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/check.h"
#include "ptxbuilder/tile/emit_pipeline.h"
#include "ptxbuilder/tile/scheduler.h"
#include "runtime/emulator/emulator.h"

namespace ptxbuilder::test::pipeline_reports_test {
namespace {

constexpr uint64_t kRows = 64, kCols = 32;

struct Reports {
  std::string notes, fault;
};

// Runs a kernel that reads and writes a matrix of f32, or that takes steps from a counter.
Reports run(Kernel kernel, uint32_t ctas, std::optional<uint32_t> counter = {}) {
  Reports reports;
  runtime::EmulatorOptions options;
  options.note = [&](const std::string& note) { reports.notes += note + "\n"; };
  const Running running{runtime::open_emulator(options)};
  std::vector<runtime::Buffer> buffers;
  std::vector<runtime::Argument> arguments;
  for (int i = 0; i < 2 && !counter; ++i) {
    buffers.push_back(runtime::Buffer::of(*running.device, std::vector<float>(kRows * kCols, 1)));
    arguments.push_back(runtime::tensor(buffers.back(), DType::f32, std::array<uint64_t, 2>{kCols, kRows},
                                        std::array<uint64_t, 1>{kCols * 4}));
  }
  if (counter) {
    buffers.push_back(runtime::Buffer::of(*running.device, std::vector<uint32_t>(1, *counter)));
    arguments.push_back(runtime::pointer(buffers.back(), DType::u32));
  }
  const Compiled compiled = running.compile(std::move(kernel));
  runtime::LoadedKernel loaded(*running.device, compiled.ptx, compiled.signature);
  reports.fault = error_of([&] {
    loaded.launch({.grid = {ctas}}, arguments);
    running.device->synchronize();
  });
  return reports;
}

BlockSpec block(TensorMap tensor, const IndexMap& index, BlockOptions options = {}) {
  return {tensor, DType::f32, {8, 32}, index, options};
}

}  // namespace

TEST_CASE("an index map that counts elements is noted") {
  for (const bool bad : {false, true}) {
    Kernel k("k");
    auto [X, Y] = k.params<TensorMap, TensorMap>("X", "Y");
    const IndexMap right = [](const GridIndex& i) { return BlockIndex{i[0], 0}; };
    const IndexMap elements = [](const GridIndex& i) { return BlockIndex{i[0] * 8, 0}; };
    emit_pipeline(k, {8}, {block(X, bad ? elements : right)}, {block(Y, right)}, {},
                  [](PipelineStep& s) { store(s.out(0), load<f32>(s.in(0))); });
    const Reports found = run(std::move(k), 1);
    CHECK(found.fault == "");
    CHECK(found.notes.empty() == !bad);
    if (bad)
      CHECK_MESSAGE(contains(found.notes, "begins at (64, 0), so its whole tile is outside"), found.notes);
    if (bad) CHECK_MESSAGE(contains(found.notes, "pipeline_reports_test.cpp"), found.notes);
  }
}

TEST_CASE("an output that some steps do not write is noted when it is sent again") {
  for (const bool bad : {false, true}) {
    Kernel k("k");
    auto [X, Y] = k.params<TensorMap, TensorMap>("X", "Y");
    const IndexMap row = [](const GridIndex& i) { return BlockIndex{i[0], 0}; };
    emit_pipeline(k, {8}, {block(X, row)}, {block(Y, row)}, {}, [&](PipelineStep& s) {
      const TileView& out = s.out(0);
      const auto write = [&] { store(out, load<f32>(s.in(0))); };
      bad ? if_(s.number() < 4, write) : write();
    });
    const Reports found = run(std::move(k), 1);
    CHECK(found.fault == "");
    CHECK(found.notes.empty() == !bad);
    if (bad) CHECK_MESSAGE(contains(found.notes, "this copy sends out 0"), found.notes);
    if (bad) CHECK_MESSAGE(contains(found.notes, "nothing has written there since"), found.notes);
  }
}

TEST_CASE("persistent CTAs that share different blocks through multicast are noted") {
  for (const bool bad : {false, true}) {
    Kernel k("k");
    k.cluster({{"pair", 2}});
    auto [X, Y] = k.params<TensorMap, TensorMap>("X", "Y");
    SpecializedOptions o;
    o.tiles = [&](const std::function<void(const GridIndex&)>& tile) {
      const u32 first = bad ? u32(ctaid_x()) : ctaid_x() / 2u, step = bad ? u32(nctaid_x()) : nctaid_x() / 2u;
      for_(first, u32(4), step, [&](u32 i) { tile(GridIndex({"tile"}, {i})); });
    };
    const IndexMap of_tile = [](const GridIndex& i) { return BlockIndex{i["tile"], 0}; };
    const IndexMap own = [](const GridIndex& i) {
      return BlockIndex{i["tile"] % 4u * 2 + axis_index("pair"), 0};
    };
    emit_pipeline_warp_specialized(
        k, {1}, {{X, DType::f32, {16, 32}, of_tile, {.multicast = ClusterAxis::x}}}, {block(Y, own)}, o,
        [](PipelineStep& s) { store(s.out(0), load<f32>(s.in(0).rows(0, 8))); });
    const Reports found = run(std::move(k), 4);
    CHECK(found.fault == "");
    CHECK_MESSAGE(found.notes.empty() == !bad, found.notes);
    if (bad)
      CHECK_MESSAGE(
          contains(found.notes, "the CTAs that fill in 0[0] by multicast load parts of different blocks"),
          found.notes);
  }
}

TEST_CASE("a kernel with checks reports roles that process tiles in different orders") {
  for (const bool bad : {false, true}) {
    const ChecksScope scope;
    Kernel k("k");
    auto [X, Y] = k.params<TensorMap, TensorMap>("X", "Y");
    int roles = 0;
    SpecializedOptions o;
    o.tiles = [&](const std::function<void(const GridIndex&)>& tile) {
      const bool backwards = roles++ > 0 && bad;
      for_(0, u32(8), [&](u32 i) { tile(GridIndex({"row"}, {backwards ? u32(7) - i : i})); });
    };
    const IndexMap row = [](const GridIndex& i) { return BlockIndex{i["row"], 0}; };
    emit_pipeline_warp_specialized(k, {1}, {block(X, row)}, {block(Y, row)}, o,
                                   [](PipelineStep& s) { store(s.out(0), load<f32>(s.in(0))); });
    const Reports found = run(std::move(k), 1);
    CHECK_MESSAGE(found.fault.empty() == !bad, found.fault);
    if (bad)
      CHECK_MESSAGE(contains(found.fault,
                             "tiles: for axis 0 (\"row\") the computing role has 7 in its tile 0, but the "
                             "loading role has 0"),
                    found.fault);
  }
}

TEST_CASE("a counter of steps that does not begin at 0 ends the launch") {
  for (const uint32_t begins : {0u, 1u, 7u, 8u, 100u, ~0u}) {
    CAPTURE(begins);
    for (const bool checks : {false, true}) {
      std::optional<ChecksScope> scope;
      if (checks) scope.emplace();
      Kernel k("k");
      auto [counter] = k.params<gptr<u32>>("counter");
      dynamic_scheduling_loop(k, counter, {8}, [](const LoopStep&) {});
      const Reports found = run(std::move(k), 3, begins);
      CHECK_MESSAGE(found.fault.empty() == (begins == 0), found.fault);
      if (begins == 0) continue;
      CHECK_MESSAGE(contains(found.fault, "pipeline_reports_test.cpp"), found.fault);
      if (checks) CHECK_MESSAGE(contains(found.fault, "a counter of steps did not begin at 0"), found.fault);
    }
  }
}

}  // namespace ptxbuilder::test::pipeline_reports_test
