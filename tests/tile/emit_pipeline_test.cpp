// Compares pipelines of emit_pipeline and emit_pipeline_warp_specialized with the host's results, for
// different grids, blocks, kinds of copies and options.
//
//   emit_pipeline_test [--device=emulator|cuda|auto]
#include "ptxbuilder/tile/emit_pipeline.h"

#include <fmt/format.h>

#include <bit>

#include "bf16_kit.h"
#include "copy_kit.h"
#include "library_kit.h"
#include "ptxbuilder/product/mma.h"
#include "ptxbuilder/product/store.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/raster.h"
#include "runtime/emulator/emulator.h"

namespace ptxbuilder::test::emit_pipeline_test {
namespace {

using Floats = std::vector<float>;

Floats numbers_from(size_t count, int first) {
  Floats x(count);
  for (size_t i = 0; i < count; ++i) x[i] = static_cast<float>((static_cast<int>(i * 7) + first) % 251);
  return x;
}

// A matrix of f32 in device memory.
struct Matrix {
  uint64_t rows, cols;
  runtime::Buffer buffer;

  Matrix(const Running& running, uint64_t rows, uint64_t cols, const Floats& values)
      : rows(rows), cols(cols), buffer(runtime::Buffer::of(*running.device, values)) {}

  runtime::Argument map() const {
    return runtime::tensor(buffer, DType::f32, std::array<uint64_t, 2>{cols, rows},
                           std::array<uint64_t, 1>{cols * 4});
  }
};

// Launches a kernel on several schedules, and poisons the output before each launch.
void check(const Running& running, Kernel kernel, runtime::Dim3 grid,
           const std::vector<runtime::Argument>& arguments, runtime::Buffer& out, const Floats& wanted,
           int schedules = 4) {
  const Compiled compiled = running.compile(std::move(kernel));
  runtime::LoadedKernel loaded(*running.device, compiled.ptx, compiled.signature);
  auto* emulator = dynamic_cast<runtime::Emulator*>(running.device.get());
  for (int seed = 0; seed < (emulator ? schedules : 1); ++seed) {
    if (emulator) emulator->seed(static_cast<uint64_t>(seed));
    out.fill(0xff);
    loaded.launch({.grid = grid}, arguments);
    running.device->synchronize();
    const Floats got = out.copy_out<float>();
    REQUIRE(got.size() == wanted.size());
    size_t wrong = 0;
    while (wrong < got.size() &&
           std::bit_cast<uint32_t>(got[wrong]) == std::bit_cast<uint32_t>(wanted[wrong]))
      ++wrong;
    CAPTURE(wrong);
    REQUIRE(wrong == got.size());
  }
}

// One CTA computes y = x + 1 for a matrix in blocks, over a grid of two named axes.
Kernel plus_one(int rows, int cols, const BlockShape& shape, PipelineOptions o) {
  Kernel k("plus_one");
  auto [X, Y] = k.params<TensorMap, TensorMap>("X", "Y");
  const auto block = [](const GridIndex& i) { return BlockIndex{i["row"], i["col"]}; };
  const BlockSpec x(X, DType::f32, shape, block), y(Y, DType::f32, shape, block);
  emit_pipeline(k, {{"row", rows / shape.rows()}, {"col", cols / shape.cols()}}, {x}, {y}, o,
                [&](PipelineStep& s) {
                  if (o.manual_wait) s.wait(0);
                  const auto v = load<f32>(s.in(0));
                  if (o.manual_release) {
                    bar_warp_sync(0xffffffff);
                    s.release(0);
                  }
                  store(s.out(0), v + 1);
                });
  return k;
}

}  // namespace

TEST_CASE("emit_pipeline runs a body over a grid, and blocks are loaded before it") {
  Running running;
  constexpr int kRows = 32, kCols = 96;
  const Floats x = numbers_from(kRows * kCols, 3);
  Floats wanted = x;
  for (float& v : wanted) ++v;
  const Matrix X(running, kRows, kCols, x);
  Matrix Y(running, kRows, kCols, x);
  for (const int stages : {1, 2, 4})
    for (const bool manual : {false, true}) {
      CAPTURE(stages);
      check(running, plus_one(kRows, kCols, {8, 32}, {stages, manual, manual}), {1}, {X.map(), Y.map()},
            Y.buffer, wanted);
    }
  // Tests blocks wider than a swizzle, and the whole matrix in one step.
  check(running, plus_one(kRows, kCols, {16, 96}, {2}), {1}, {X.map(), Y.map()}, Y.buffer, wanted);
  check(running, plus_one(kRows, kCols, {32, 96}, {3}), {1}, {X.map(), Y.map()}, Y.buffer, wanted);
  check(running, plus_one(kRows, kCols, TileShape{8, 96, 32}, {2}), {1}, {X.map(), Y.map()}, Y.buffer,
        wanted);
  // Blocks have so few rows that panels with a swizzle would begin at addresses that TMA does not support.
  const Floats wide = numbers_from(4 * 128, 3);
  Floats one_more = wide;
  for (float& v : one_more) ++v;
  const Matrix W(running, 4, 128, wide);
  Matrix V(running, 4, 128, wide);
  check(running, plus_one(4, 128, {1, 128}, {2}), {1}, {W.map(), V.map()}, V.buffer, one_more);
}

// Each CTA has some rows and computes y = x + bias. `sum` adds up the columns of its blocks, and the carry
// counts the blocks.
TEST_CASE("emit_pipeline: fixed blocks, a carry, CTAs that have different numbers of steps, and none") {
  Running running;
  constexpr int kRows = 40, kCols = 32, kBlock = 8, kCtas = 4;  // the last CTA has no step
  const Floats x = numbers_from(kRows * kCols, 1), bias = numbers_from(kCols * 8, 5);
  Floats sums(kCtas * kBlock * kCols), counts(kCtas);
  for (int b = 0; b < kRows / kBlock; ++b) {
    const int cta = b % 3;
    counts[static_cast<size_t>(cta)] += 1;
    for (int i = 0; i < kBlock * kCols; ++i)
      sums[static_cast<size_t>(cta * kBlock * kCols + i)] +=
          x[static_cast<size_t>(b * kBlock * kCols + i)] + bias[static_cast<size_t>(i)];
  }
  Kernel k("sums");
  auto [X, B, S, counted, blocks] =
      k.params<TensorMap, TensorMap, TensorMap, gptr<f32>, u32>("X", "B", "S", "counted", "blocks");
  const BlockSpec rows(X, DType::f32, {kBlock, kCols}, [](const GridIndex& i) {
    return BlockIndex{ctaid_x() + i[0] * 3, 0};
  });
  const BlockSpec fixed(B, DType::f32, {kBlock, kCols},
                        [](const GridIndex&) {
                          return BlockIndex{0, 0};
                        },
                        {.fixed = true});
  const BlockSpec sum(S, DType::f32, {kBlock, kCols},
                      [](const GridIndex&) {
                        return BlockIndex{ctaid_x(), 0};
                      },
                      {.fixed = true});
  const u32 mine = select(ctaid_x() < 3, (blocks + 2 - min(ctaid_x(), u32(2))) / 3, u32(0));
  const f32 count = emit_pipeline(
      k, {mine}, {rows, fixed}, {sum}, {.stages = 3}, f32(0), [&](PipelineStep& s, const f32& before) {
        const auto v = load<f32>(s.in(0)) + load<f32>(s.in(1));
        if_(
            s.number() == 0, [&] { store(s.out(0), v); }, [&] { store(s.out(0), load<f32>(s.out(0)) + v); });
        return before + 1;
      });
  if_(tid_x() == 0, [&, counted = counted] { counted[ctaid_x()] = count; });
  const Matrix X_(running, kRows, kCols, x), B_(running, 8, kCols, bias);
  Matrix S_(running, kCtas * kBlock, kCols, Floats(kCtas * kBlock * kCols));
  Matrix counted_(running, 1, kCtas, Floats(kCtas));
  std::fill(sums.begin() + 3 * kBlock * kCols, sums.end(), std::bit_cast<float>(~0u));  // nothing is written
  check(running, std::move(k), {kCtas},
        {X_.map(), B_.map(), S_.map(), runtime::pointer(counted_.buffer, DType::f32),
         runtime::scalar(uint32_t{kRows / kBlock})},
        S_.buffer, sums);
  CHECK(counted_.buffer.copy_out<float>() == counts);
}

namespace {

// Computes y = x + 1 for blocks that threads copy, with rows `stride` elements apart.
template <class T>
Kernel by_threads(int rows, int cols, int stride, int block_rows, int block_cols, bool roles) {
  Kernel k("by_threads");
  auto [X, Y] = k.params<gptr<T>, gptr<T>>("X", "Y");
  const GlobalTensor x(X, {rows, cols}, {stride, 1}), y(Y, {rows, cols}, {stride, 1});
  const auto block = [](const GridIndex& i) { return BlockIndex{i[0], i[1]}; };
  const BlockSpec in(x, {block_rows, block_cols}, block), out(y, {block_rows, block_cols}, block);
  const GridShape grid = {ceil_div(u32(rows), block_rows), ceil_div(u32(cols), block_cols)};
  const auto body = [&](PipelineStep& s) { store(s.out(0), astype<T>(astype<f32>(load<T>(s.in(0))) + 1)); };
  if (roles)
    emit_pipeline_warp_specialized(k, grid, {in}, {out}, {.stages = 3}, body);
  else
    emit_pipeline(k, grid, {in}, {out}, {.stages = 3}, body);
  return k;
}

}  // namespace

TEST_CASE("blocks that TMA cannot copy use cp.async or loads, and the sidecar says so") {
  Running running;
  for (const bool roles : {false, true}) {
    const auto run = [&](int rows, int cols, int stride, int block_rows, int block_cols, const char* said) {
      const size_t count = static_cast<size_t>(rows * stride);
      const Floats x = numbers_from(count, 2);
      Floats wanted(count, std::bit_cast<float>(~0u));
      for (int i = 0; i < rows; ++i)
        for (int j = 0; j < cols; ++j)
          wanted[static_cast<size_t>(i * stride + j)] = x[static_cast<size_t>(i * stride + j)] + 1;
      const Matrix X(running, 1, count, x);
      Matrix Y(running, 1, count, x);
      Kernel k = by_threads<f32>(rows, cols, stride, block_rows, block_cols, roles);
      k.finish();
      const auto& all = k.signature().configuration;
      REQUIRE(all.size() == 2);
      CHECK(all[0].first == "in 0");
      CHECK(all[0].second == said);
      const Compiled compiled = running.compile(std::move(k));
      runtime::LoadedKernel loaded(*running.device, compiled.ptx, compiled.signature);
      Y.buffer.fill(0xff);
      loaded.launch({.grid = {1}},
                    {runtime::pointer(X.buffer, DType::f32), runtime::pointer(Y.buffer, DType::f32)});
      running.device->synchronize();
      const Floats got = Y.buffer.copy_out<float>();
      CHECK(std::memcmp(got.data(), wanted.data(), count * 4) == 0);
    };
    run(64, 2, 2, 64, 2, "cp.async of 8 B by 64 threads");       // rows of 8 bytes
    run(32, 64, 65, 8, 32, "cp.async of 4 B by 128 threads");    // an odd stride
    run(20, 40, 44, 16, 32, "cp.async of 16 B by 128 threads");  // blocks that extend beyond the matrix
  }
  // Elements of 2 bytes are at addresses that are odd multiples of 2.
  constexpr int kRows = 16, kCols = 32, kStride = 33;
  Floats x(kRows * kStride), wanted = x;
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 64), wanted[i] = x[i] + 1;
  const runtime::Buffer X = runtime::Buffer::of(*running.device, as_bf16(x));
  runtime::Buffer Y = runtime::Buffer::of(*running.device, as_bf16(x));
  launch(running, by_threads<bf16>(kRows, kCols, kStride, 8, 32, false), {1},
         {runtime::pointer(X, DType::bf16), runtime::pointer(Y, DType::bf16)});
  for (size_t row = 0; row < kRows; ++row) wanted[row * kStride + kCols] = x[row * kStride + kCols];
  CHECK(Y.copy_out<std::byte>() == as_bf16(wanted));
}

namespace {

struct Product {
  int compute, stages, delay, cluster;
  bool tiles, b_by_threads, manual;
  bool after = false;  // the sums are stored after the run, while its last products may still be in flight
};

constexpr int kM = 256, kN = 128, kK = 5 * 64, kBn = 64;

// Computes D = A B^T in f32, in tiles that are stored as blocks. A tile has 64 columns, and 64 rows for each
// computing warpgroup.
Kernel product(const Product& p) {
  Kernel k("product");
  if (p.cluster > 1) k.cluster(static_cast<uint32_t>(p.cluster));
  auto [A, B, Bp, D] = k.params<TensorMap, TensorMap, gptr<bf16>, TensorMap>("A", "B", "Bp", "D");
  const int bm = 64 * p.compute;
  if (p.b_by_threads) k.encode(B, {DType::bf16, {64, 64}, {1, 1}});
  const GlobalTensor b_memory(Bp, {kN, kK});
  const u32 first_row = ctaid_x(), first_col = ctaid_y();
  const auto row = [&](const GridIndex& i) { return p.tiles ? i[0] : first_row; };
  const auto col = [&](const GridIndex& i) { return p.tiles ? i[1] : first_col; };
  const auto depth = [](const GridIndex& i) { return i["k"]; };
  const IndexMap of_b = [&](const GridIndex& i) { return BlockIndex{col(i), depth(i)}; };
  const BlockSpec a(A, DType::bf16, {bm, 64},
                    [&](const GridIndex& i) {
                      return BlockIndex{row(i), depth(i)};
                    },
                    {.delay_release = p.delay});
  const BlockSpec b =
      p.b_by_threads ? BlockSpec(b_memory, {kBn, 64}, of_b)
                     : BlockSpec(B, DType::bf16, {kBn, 64}, of_b,
                                 {.multicast = p.cluster > 1 ? ClusterAxes(ClusterAxis::x) : ClusterAxes(),
                                  .delay_release = p.delay});
  const BlockSpec d(D, DType::f32, {bm, kBn},
                    [&](const GridIndex& i) {
                      return BlockIndex{row(i), col(i)};
                    },
                    {.fixed = true});
  SpecializedOptions o{.compute_warpgroups = p.compute, .stages = p.stages};
  o.manual_wait = o.manual_release = p.manual;
  if (p.tiles)
    o.tiles = [&](const std::function<void(const GridIndex&)>& body) {
      for_each_tile(u32(kM / bm), u32(kN / kBn), 1, [&](TileIndex t) {
        body(GridIndex({"row", "col"}, {t.row, t.col}));
      });
    };
  const std::vector<BlockSpec> out = p.after ? std::vector<BlockSpec>() : std::vector{d};
  emit_pipeline_warp_specialized(k, {{"k", kK / 64}}, {a, b}, out, o, [&, D = D](PipelineCompute& pipe) {
    Accumulator acc(64, kBn);
    const auto tile = [&] {
      acc.zero();
      pipe.run([&](PipelineStep& s) {
        if (p.manual)
          for (int i = 0; i < 2 - (p.delay == 0 && !p.b_by_threads); ++i) s.wait(i);
        wgmma_group([&] { mma(acc, s.in(0).rows(pipe.warpgroup() * 64, 64), s.in(1)); });
        wgmma_wait(p.delay);
        if (p.manual) s.release(0);
        if (p.after) return;
        if_(s.number() == kK / 64 - 1, [&] {
          wgmma_wait(0);
          store(s.out(0).rows(pipe.warpgroup() * 64, 64), load<f32>(acc));
        });
      });
    };
    if (p.tiles)
      pipe.each_tile([&](const GridIndex&) { tile(); });
    else
      tile();
    if (p.after) store<f32>(D, acc, first_row * bm + pipe.warpgroup() * 64, first_col * kBn);
  });
  return k;
}

}  // namespace

TEST_CASE("emit_pipeline_warp_specialized: products with its options") {
  Running running;
  const std::vector<float> a = numbers(kM * kK, 2654435761u), b = numbers(kN * kK, 40503);
  Floats wanted(kM * kN);
  for (size_t i = 0; i < kM; ++i)
    for (size_t j = 0; j < kN; ++j)
      for (size_t k = 0; k < kK; ++k) wanted[i * kN + j] += a[i * kK + k] * b[j * kK + k];
  const runtime::Buffer A = runtime::Buffer::of(*running.device, as_bf16(a)),
                        B = runtime::Buffer::of(*running.device, as_bf16(b));
  Matrix D(running, kM, kN, wanted);
  for (const Product& p :
       {Product{1, 3, 0, 1, false, false, false}, Product{2, 2, 0, 1, false, false, true},
        Product{2, 3, 1, 1, false, false, false}, Product{2, 3, 1, 1, false, false, false, true},
        Product{1, 4, 2, 1, true, false, false}, Product{2, 3, 0, 2, false, false, false},
        Product{2, 3, 0, 1, true, true, false}, Product{1, 2, 1, 2, true, false, false}}) {
    const std::string text = fmt::format("{} compute, {} stages, delay {}, cluster {}, tiles {}, threads {}",
                                         p.compute, p.stages, p.delay, p.cluster, p.tiles, p.b_by_threads);
    CAPTURE(text);
    const uint32_t rows = static_cast<uint32_t>(kM / (64 * p.compute));
    const runtime::Dim3 grid =
        p.tiles ? runtime::Dim3{static_cast<uint32_t>(p.cluster == 1 ? 3 : p.cluster), 1, 1}
                : runtime::Dim3{rows, kN / kBn, 1};
    check(running, product(p), grid,
          {runtime::tensor(A, DType::bf16, {kK, kM}), runtime::tensor(B, DType::bf16, {kK, kN}),
           runtime::pointer(B, DType::bf16), D.map()},
          D.buffer, wanted, 3);
  }
}

// Sums without products must be zero, with and without tiles, and even if products are left in flight.
TEST_CASE("a pipeline that the device finds to have no step leaves sums of zero") {
  Running running;
  for (const bool tiles : {false, true}) {
    CAPTURE(tiles);
    Kernel k("no_steps");
    auto [X, Y, steps] = k.params<TensorMap, TensorMap, u32>("X", "Y", "steps");
    const BlockSpec x(X, DType::bf16, {64, 64},
                      [](const GridIndex& i) {
                        return BlockIndex{0, i["k"]};
                      },
                      {.delay_release = tiles ? 0 : 1});
    SpecializedOptions o{.stages = 2};
    if (tiles)
      o.tiles = [](const std::function<void(const GridIndex&)>& body) {
        for_(0, u32(2), [&](u32 i) { body(GridIndex({"tile"}, {i})); });
      };
    emit_pipeline_warp_specialized(k, {{"k", steps}}, {x}, {}, o, [&, Y = Y](PipelineCompute& pipe) {
      Accumulator acc(64, 64);
      const auto run = [&](u32 row) {
        acc.zero();
        pipe.run([&](PipelineStep& s) {
          wgmma_group([&] { mma(acc, s.in(0), s.in(0)); });
          wgmma_wait(tiles ? 0 : 1);
        });
        store<f32>(Y, acc, row, 0);
      };
      if (tiles)
        pipe.each_tile([&](const GridIndex& tile) { run(tile["tile"] * 64); });
      else
        run(0);
    });
    const runtime::Buffer X_ = runtime::Buffer::of(*running.device, as_bf16(Floats(64 * 64, 1)));
    Matrix Y_(running, 128, 64, Floats(128 * 64));
    const Compiled compiled = running.compile(std::move(k));
    runtime::LoadedKernel loaded(*running.device, compiled.ptx, compiled.signature);
    for (const uint32_t count : {0, 1}) {
      Floats wanted(128 * 64, static_cast<float>(count * 64));
      if (!tiles) std::fill(wanted.begin() + 64 * 64, wanted.end(), std::bit_cast<float>(~0u));
      Y_.buffer.fill(0xff);
      loaded.launch({.grid = {1}},
                    {runtime::tensor(X_, DType::bf16, {64, 64}), Y_.map(), runtime::scalar(count)});
      running.device->synchronize();
      const Floats got = Y_.buffer.copy_out<float>();
      CHECK(std::memcmp(got.data(), wanted.data(), got.size() * 4) == 0);
    }
  }
}

// Computes y = x + bias for tiles of rows, each with its own bias.
TEST_CASE("fixed blocks of several stages are loaded a tile ahead") {
  Running running;
  constexpr int kRows = 48, kCols = 32, kBlock = 8;
  const Floats x = numbers_from(kRows * kCols, 1), bias = numbers_from(kRows / 2 * kCols, 5);
  Floats wanted = x;
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t row = i / kCols, tile = row / (2 * kBlock);
    wanted[i] += bias[(tile * kBlock + row % kBlock) * kCols + i % kCols];
  }
  for (const int stages : {1, 2}) {
    Kernel k("biased");
    auto [X, B, Y] = k.params<TensorMap, TensorMap, TensorMap>("X", "B", "Y");
    const auto block = [](const GridIndex& i) { return BlockIndex{i["tile"] * 2 + i["half"], 0}; };
    const BlockSpec rows(X, DType::f32, {kBlock, kCols}, block), out(Y, DType::f32, {kBlock, kCols}, block);
    const BlockSpec fixed(B, DType::f32, {kBlock, kCols},
                          [](const GridIndex& i) {
                            return BlockIndex{i["tile"], 0};
                          },
                          {.fixed = true, .fixed_stages = stages});
    const SpecializedOptions o{.stages = 3, .tiles = [](const std::function<void(const GridIndex&)>& body) {
                                 for_(0, u32(kRows / (2 * kBlock)), [&](u32 i) {
                                   body(GridIndex({"tile"}, {planar_snake(i, u32(3), u32(1), 0, 2).row}));
                                 });
                               }};
    emit_pipeline_warp_specialized(k, {{"half", 2}}, {rows, fixed}, {out}, o, [](PipelineStep& s) {
      store(s.out(0), load<f32>(s.in(0)) + load<f32>(s.in(1)));
    });
    const Matrix X_(running, kRows, kCols, x), B_(running, kRows / 2, kCols, bias);
    Matrix Y_(running, kRows, kCols, x);
    check(running, std::move(k), {1}, {X_.map(), B_.map(), Y_.map()}, Y_.buffer, wanted);
  }
}

// Only a run reveals this mistake: the body hands back a stage before it reads it.
TEST_CASE("emulator: a stage that is handed back too early is reported, and otherwise not") {
  for (const bool early : {true, false}) {
    Kernel k("early");
    auto [X, Y] = k.params<TensorMap, TensorMap>("X", "Y");
    const auto block = [](const GridIndex& i) { return BlockIndex{i[0], 0}; };
    const BlockSpec x(X, DType::f32, {8, 32}, block), y(Y, DType::f32, {8, 32}, block);
    const Where pipeline = Where::here();
    emit_pipeline(k, {8}, {x}, {y}, {.stages = 2, .manual_release = true}, [&](PipelineStep& s) {
      const TileView in = s.in(0);
      if (early) s.release(0);
      const auto v = load<f32>(in);
      if (!early) {
        bar_warp_sync(0xffffffff);
        s.release(0);
      }
      store(s.out(0), v);
    });
    Running running;
    running.device = runtime::open_emulator();
    const Matrix X_(running, 64, 32, Floats(64 * 32)), Y_(running, 64, 32, Floats(64 * 32));
    const Compiled compiled = running.compile(std::move(k));
    runtime::LoadedKernel loaded(*running.device, compiled.ptx, compiled.signature);
    const std::string report = error_of([&] {
      for (uint64_t seed = 0; seed < 20; ++seed) {
        dynamic_cast<runtime::Emulator&>(*running.device).seed(seed);
        loaded.launch({.grid = {1}}, {X_.map(), Y_.map()});
        running.device->synchronize();
      }
    });
    CAPTURE(report);
    CHECK(contains(report, "race") == early);
    CHECK(contains(report, "in 0") == early);
    // The report names the pipeline's line for the load, and not that of the map, which was called before.
    CHECK(contains(report, fmt::format("emit_pipeline_test.cpp:{}", pipeline.line + 1)) == early);
  }
}

// Roles with different orders of tiles wait for each other forever.
TEST_CASE("emulator: a deadlock in a pipeline is reported with the author's line and the stage's barrier") {
  for (const bool differ : {true, false}) {
    Kernel k("differ");
    auto [X] = k.params<TensorMap>("X");
    const BlockSpec x(X, DType::f32, {8, 32}, [](const GridIndex& i) { return BlockIndex{i["step"], 0}; });
    const BlockSpec bias(X, DType::f32, {8, 32},
                         [](const GridIndex&) {
                           return BlockIndex{0, 0};
                         },
                         {.fixed = true});
    int calls = 0;
    const SpecializedOptions o{.stages = 2, .tiles = [&](const std::function<void(const GridIndex&)>& body) {
                                 const uint32_t tiles = differ && ++calls == 2 ? 3 : 2;
                                 for_(0, u32(tiles), [&](u32 i) { body(GridIndex({"tile"}, {i})); });
                               }};
    const Where pipeline = Where::here();
    emit_pipeline_warp_specialized(k, {{"step", 2}}, {bias, x}, {}, o, [](PipelineStep&) {});
    Running running;
    running.device = runtime::open_emulator();
    const Matrix X_(running, 16, 32, Floats(16 * 32));
    const std::string report = error_of([&] { launch(running, std::move(k), {1}, {X_.map()}); });
    CAPTURE(report);
    CHECK(contains(report, "deadlock") == differ);
    CHECK(contains(report, "of mbarrier full of in 0") == differ);
    CHECK(contains(report, fmt::format("emit_pipeline_test.cpp:{}", pipeline.line + 1)) == differ);
  }
}

}  // namespace ptxbuilder::test::emit_pipeline_test
