// Tensor copies that CTAs share, that reduce, that give L2 a hint, and that collapse or leave out dimensions:
// every element at its place, against a model on the host.
//
//   tensor_slice_test [--device=emulator|cuda|auto]
#define DOCTEST_CONFIG_IMPLEMENT
#include "ptxbuilder/tile/tensor_slice.h"

#include <fmt/format.h>

#include <cstring>

#include "copy_kit.h"
#include "kernels/command/elements.h"
#include "library_kit.h"
#include "ptxbuilder/tile/barrier.h"
#include "ptxbuilder/tile/commit.h"
#include "ptxbuilder/tile/register_memory.h"

using namespace ptxbuilder;
using namespace ptxbuilder::test;

namespace {

using Cluster = std::array<uint32_t, 3>;

uint32_t ctas(const Cluster& c) { return c[0] * c[1] * c[2]; }

// Compiles, launches one cluster, and waits.
std::string launch(const Running& running, Kernel kernel, const Cluster& grid,
                   const std::vector<runtime::Argument>& arguments) {
  Compiled compiled = running.compile(std::move(kernel));
  runtime::LoadedKernel loaded(*running.device, compiled.ptx, compiled.signature);
  loaded.launch({.grid = {grid[0], grid[1], grid[2]}}, arguments);
  running.device->synchronize();
  return compiled.ptx;
}

runtime::Argument mapped(const runtime::Buffer& buffer, const TensorCopy& copy,
                         const std::vector<int64_t>& extents, const std::vector<int64_t>& strides) {
  TensorCopy::MappedTensor map = copy.map_tensor(extents, strides);
  return runtime::tensor(buffer, copy.dtype(), map.shape, map.strides);
}

// Each CTA gets a tile, shared along an axis, and writes it out behind those of the ranks before it.
Kernel shared_by_ctas(const TensorCopy& copy, const Cluster& cluster, ClusterAxis axis) {
  Kernel k("shared_by_ctas");
  auto [A, out] = k.params<TensorMap, gptr<u32>>("A", "out");
  k.cluster(cluster[0], cluster[1], cluster[2]);
  const auto rows = static_cast<int>(copy.extents()[0]), cols = static_cast<int>(copy.extents()[1]);
  SharedTile tile = k.shared(copy.dtype(), {rows, cols}, Swizzle::none, 1, "tile");
  Barriers bar(k, {1});
  sync_cluster();
  // CTAs in line have the same rows of the tensor; others have others.
  std::array<u32, 3> at = {cluster_ctaid_x(), cluster_ctaid_y(), cluster_ctaid_z()};
  at[static_cast<size_t>(axis)] = 0;
  u32 line = at[0] + at[1] * cluster[0] + at[2] * (cluster[0] * cluster[1]);
  elect([&] {
    mbarrier_arrive_expect_tx(bar[0], static_cast<uint32_t>(copy.bytes()));
    tma_load(copy, tile[0].on(bar[0]).multicast(axis), A, {ds(line * rows, rows), ds(0, cols)});
  });
  barrier_wait(bar[0], 0);
  smem place = tile[0].address();
  gmem to = gmem(out) + u64(cluster_ctarank()) * static_cast<uint64_t>(copy.bytes());
  write_out(to, place, copy.dtype(), rows, cols, copy.shared_layout());
  sync_cluster();  // shared memory lives for as long as others copy into it
  return k;
}

}  // namespace

TEST_CASE("CTAs share a tensor copy along x, y and z") {
  struct Case {
    std::vector<int64_t> extents;
    std::vector<CopyTransform> transforms;
    Swizzle swizzle;
  };
  const TileTransform by64{{64, 64}};
  const std::vector<Case> cases = {
      {{64, 64}, {}, Swizzle::b128},        // one box, cut along its rows
      {{64, 128}, {}, Swizzle::b128},       // two panels
      {{96, 128}, {}, Swizzle::b128},       // cut along rows within the panels too
      {{128, 128}, {by64}, Swizzle::b128},  // 2 x 2 tiles in one box
      {{128, 128}, {by64, TransposeTransform{{1, 0, 2, 3}}}, Swizzle::b128},
      {{64, 64}, {}, Swizzle::none},
  };
  Running running;
  int count = 0;
  for (const Case& c : cases)
    for (const Cluster& cluster : {Cluster{2, 1, 1}, {1, 2, 1}, {1, 1, 2}, {2, 2, 1}, {4, 1, 2}, {2, 2, 2}})
      for (ClusterAxis axis : {ClusterAxis::x, ClusterAxis::y, ClusterAxis::z}) {
        TensorCopy copy(DType::bf16, c.extents, c.transforms, c.swizzle);
        const int64_t rows = c.extents[0], cols = c.extents[1];
        const uint32_t all = ctas(cluster);
        CAPTURE(copy.describe());
        CAPTURE(all);
        std::vector<std::byte> matrix = numbered(DType::bf16, static_cast<size_t>(rows * cols * all)), wanted;
        runtime::Buffer a = runtime::Buffer::of(*running.device, matrix), out(*running.device, matrix.size());
        out.fill(0xff);
        const int in_line = static_cast<int>(cluster[static_cast<size_t>(axis)]);
        const TensorCopy divided = copy.divided(in_line);
        CHECK(divided.boxes() % in_line == 0);
        CHECK(divided.boxes() * divided.box_bytes() == copy.bytes());
        Kernel kernel = shared_by_ctas(copy, cluster, axis);
        CHECK((kernel.signature().parameters[0].tensor_map == divided.recipe()));
        std::string ptx =
            launch(running, std::move(kernel), cluster,
                   {mapped(a, copy, {rows * all, cols}, {cols, 1}), runtime::pointer(out, DType::u32)});
        CHECK(contains(ptx, ".multicast::cluster") == (in_line > 1));
        for (uint32_t rank = 0; rank < all; ++rank) {
          std::array<uint32_t, 3> at = {rank % cluster[0], rank / cluster[0] % cluster[1],
                                        rank / cluster[0] / cluster[1]};
          at[static_cast<size_t>(axis)] = 0;
          const uint32_t line = at[0] + at[1] * cluster[0] + at[2] * cluster[0] * cluster[1];
          std::vector<std::byte> part = rows_of(matrix, cols, line * rows, 0, rows, cols, 2);
          wanted.insert(wanted.end(), part.begin(), part.end());
        }
        CHECK(out.copy_out<std::byte>() == wanted);
        ++count;
      }
  CHECK(count == 6 * 6 * 3);
}

TEST_CASE("views are shared along z too") {
  Running running;
  const Cluster cluster = {2, 1, 2};
  Kernel k("views");
  auto [A, out] = k.params<TensorMap, gptr<u32>>("A", "out");
  k.cluster(cluster[0], cluster[1], cluster[2]);
  SharedTile tile = k.shared<bf16>({64, 64}, Swizzle128B);
  Barriers bar(k, {1});
  sync_cluster();
  elect([&] { tma_load(tile[0].expecting(bar[0]).multicast(ClusterAxis::z), A, 0, cluster_ctaid_x() * 64); });
  barrier_wait(bar[0], 0);
  write_out(gmem(out) + u64(cluster_ctarank()) * 8192, tile[0].address(), DType::bf16, 64, 64,
            layout_of(tile[0]));
  sync_cluster();
  std::vector<std::byte> matrix = numbered(DType::bf16, 2 * 64 * 64), wanted = matrix;
  wanted.insert(wanted.end(), matrix.begin(), matrix.end());
  runtime::Buffer a = runtime::Buffer::of(*running.device, matrix), b(*running.device, wanted.size());
  launch(running, std::move(k), cluster,
         {runtime::tensor(a, DType::bf16, {64, 128}), runtime::pointer(b, DType::u32)});
  CHECK(b.copy_out<std::byte>() == wanted);
}

namespace {

// What becomes of `old` where `now` arrives; both small integers, not negative where the type has no sign.
double reduced(CopyReduction reduction, double old, double now) {
  auto a = static_cast<int64_t>(old), b = static_cast<int64_t>(now);
  switch (reduction) {
    case CopyReduction::add:
      return old + now;
    case CopyReduction::min:
      return std::min(old, now);
    case CopyReduction::max:
      return std::max(old, now);
    case CopyReduction::inc:
      return a >= b ? 0 : old + 1;
    case CopyReduction::dec:
      return a == 0 || a > b ? now : old - 1;
    case CopyReduction::bit_and:
      return static_cast<double>(a & b);
    case CopyReduction::bit_or:
      return static_cast<double>(a | b);
    default:
      return static_cast<double>(a ^ b);
  }
}

std::vector<double> integers(size_t count, uint32_t factor) {
  std::vector<double> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = (static_cast<uint32_t>(i) * factor >> 7) % 29;
  return values;
}

// A tile comes from A, and joins D twice: as a view, and as a tensor copy of 32-byte spans.
Kernel joining(CopyReduction reduction, const TensorCopy& copy, bool by_view) {
  Kernel k("joining");
  auto [A, D] = k.params<TensorMap, TensorMap>("A", "D");
  const auto rows = static_cast<int>(copy.extents()[0]), cols = static_cast<int>(copy.extents()[1]);
  SharedTile tile = k.shared(copy.dtype(), {rows, cols}, copy.swizzle());
  Barriers bar(k, {1});
  sync_threads();
  elect([&] {
    mbarrier_arrive_expect_tx(bar[0], static_cast<uint32_t>(tile[0].bytes()));
    tma_load(tile[0].on(bar[0]).evict(Eviction::first), A, 0, 0);
    barrier_wait(bar[0], 0);
    if (by_view)
      tma_reduce(reduction, D, tile[0], 8, 8);
    else
      tma_reduce(reduction, copy, D, {ds(8, rows), ds(8, cols)}, tile[0].evict(Eviction::last));
    cp_async_bulk_commit_group();
  });
  wait_stores(0);
  return k;
}

}  // namespace

TEST_CASE("reductions of every type that has them, in views and in slices") {
  Running running;
  int count = 0;
  for (CopyReduction reduction : isa::kCopyReductions)
    for (DType type : isa::types_of(reduction))
      for (bool by_view : {true, false}) {
        CAPTURE(isa::name(reduction));
        CAPTURE(name(type));
        constexpr size_t rows = 16, extent = 64;
        const size_t cols = 64 / static_cast<size_t>(size_of(type)),
                     bytes = static_cast<size_t>(size_of(type));
        TensorCopy copy(type, {rows, static_cast<int64_t>(cols)}, {}, Swizzle::b32);
        std::vector<double> now = integers(rows * cols, 2654435761u), old = integers(extent * extent, 40503);
        std::vector<std::byte> in(now.size() * bytes), out(old.size() * bytes), wanted(out.size());
        for (size_t i = 0; i < now.size(); ++i) command::put(&in[i * bytes], type, now[i]);
        for (size_t i = 0; i < old.size(); ++i) {
          command::put(&out[i * bytes], type, old[i]);
          const size_t row = i / extent - 8, col = i % extent - 8;
          const bool inside = row < rows && col < cols;
          command::put(&wanted[i * bytes], type,
                       inside ? reduced(reduction, old[i], now[row * cols + col]) : old[i]);
        }
        runtime::Buffer a = runtime::Buffer::of(*running.device, in),
                        d = runtime::Buffer::of(*running.device, out);
        std::string ptx =
            launch(running, joining(reduction, copy, by_view), {1, 1, 1},
                   {runtime::tensor(a, type, {cols, rows}), runtime::tensor(d, type, {extent, extent})});
        CHECK(d.copy_out<std::byte>() == wanted);
        CHECK(contains(ptx, "createpolicy.fractional.L2::evict_first.b64"));
        CHECK(contains(ptx, "createpolicy.fractional.L2::evict_last.b64") == !by_view);
        CHECK(contains(ptx, fmt::format("global.shared::cta.{}.bulk_group{} ", isa::name(reduction),
                                        by_view ? "" : ".L2::cache_hint")));
        ++count;
      }
  CHECK(count == 2 * (7 + 6 + 6 + 1 + 1 + 3 * 3));
}

TEST_CASE("hints to L2 change the instructions, and no element") {
  Running running;
  for (std::optional<Eviction> hint :
       {std::optional<Eviction>(), {Eviction::normal}, {Eviction::first}, {Eviction::last}}) {
    Kernel k("hints");
    auto [A, D] = k.params<TensorMap, TensorMap>("A", "D");
    SharedTile tile = k.shared<f16>({64, 128}, Swizzle128B);
    Barriers bar(k, {1});
    sync_threads();
    TileView view = hint ? tile[0].evict(*hint) : tile[0];
    elect([&] {
      mbarrier_arrive_expect_tx(bar[0], static_cast<uint32_t>(view.bytes()));
      tma_load(view.on(bar[0]), A, 0, 0);
      barrier_wait(bar[0], 0);
      tma_store(D, view, 0, 0);
      cp_async_bulk_commit_group();
    });
    wait_stores(0);
    std::vector<std::byte> matrix = numbered(DType::f16, 64 * 128);
    runtime::Buffer a = runtime::Buffer::of(*running.device, matrix), d(*running.device, matrix.size());
    d.fill(0);
    std::string ptx =
        launch(running, std::move(k), {1, 1, 1},
               {runtime::tensor(a, DType::f16, {128, 64}), runtime::tensor(d, DType::f16, {128, 64})});
    CHECK(d.copy_out<std::byte>() == matrix);
    CHECK(count(ptx, "createpolicy.fractional.L2::evict_") == (hint ? 1 : 0));  // one serves all four copies
    CHECK(count(ptx, ".L2::cache_hint") == (hint ? 4 : 0));
  }
}

TEST_CASE("six dimensions in a tensor map of three: collapsed, left out, transposed") {
  Running running;
  // Elements at [2, i1, 0, i3, rows, cols] with gaps behind rows: as strides say.
  const std::vector<int64_t> extents = {3, 4, 1, 2, 64, 64};
  const std::vector<int64_t> strides = {2 * 4 * 64 * 80, 64 * 80, 7680, 4 * 64 * 80, 80, 1};
  const std::vector<CopyTransform> transforms = {DropUnit{{2}}, TransposeTransform{{2, 0, 1, 3, 4}},
                                                 CollapseLeading{{strides[3], strides[0], strides[1]}},
                                                 TileTransform{{64, 32}}};
  TensorCopy copy(DType::bf16, {1, 1, 1, 1, 32, 64}, transforms, Swizzle::b64);
  CHECK(copy.map_rank() == 5);
  CHECK(copy.map_modes()[0].parts == std::vector<TensorMode::Part>{{3, 4}, {0, 8}, {1, 1}});
  TensorCopy::MappedTensor map = copy.map_tensor(extents, strides);
  CHECK(map.shape == std::vector<uint64_t>{32, 64, 2, 1, 24});
  CHECK(map.strides == std::vector<uint64_t>{160, 64, 64 * 160, 64 * 160});

  Kernel k("collapsed");
  auto [A, D, i0, i1, i3] = k.params<TensorMap, TensorMap, u32, u32, u32>("A", "D", "i0", "i1", "i3");
  SharedTile tile = k.shared<bf16>({32, 64}, Swizzle64B);
  Barriers bar(k, {1});
  sync_threads();
  elect([&] {
    tma_load(copy, tile[0].expecting(bar[0]), A,
             {ds(i0, 1), ds(i1, 1), ds(0, 1), ds(i3, 1), ds(0, 32), ds(0, 64)});
    barrier_wait(bar[0], 0);
    // Two panels of 32 columns, as the transforms have put them.
    tma_store(D, tile[0], 0, 0);
    cp_async_bulk_commit_group();
  });
  wait_stores(0);
  Compiled compiled = running.compile(std::move(k));
  std::vector<std::byte> tensor = numbered(DType::bf16, static_cast<size_t>(3 * strides[0]));
  for (auto [x, y, z] : {std::array{0, 0, 0}, {2, 3, 1}, {1, 2, 0}}) {
    runtime::Buffer a = runtime::Buffer::of(*running.device, tensor), d(*running.device, 32 * 64 * 2);
    runtime::LoadedKernel kernel(*running.device, compiled.ptx, compiled.signature);
    kernel.launch({}, {mapped(a, copy, extents, strides), runtime::tensor(d, DType::bf16, {64, 32}),
                       runtime::scalar(static_cast<uint32_t>(x)), runtime::scalar(static_cast<uint32_t>(y)),
                       runtime::scalar(static_cast<uint32_t>(z))});
    running.device->synchronize();
    const int64_t first = x * strides[0] + y * strides[1] + z * strides[3];
    CHECK(d.copy_out<std::byte>() == rows_of(tensor, 80, first / 80, 0, 32, 64, 2));
  }
}

namespace {

enum class Left : uint8_t { nothing, commit, wait };

// Each warpgroup of a role doubles its tile, sends it away, and zeroes it, of which D is to see nothing.
Kernel overwriting(Left out) {
  Kernel k("overwriting");
  auto [D] = k.params<TensorMap>("D");
  SharedTile tile = k.shared<f16>({64, 64}, Swizzle128B, 2);
  k.warpgroups(2, 0, [&](u32 group) {
    auto layout = wgmma_layout(64, 64);
    store(tile[group], RegisterTile<f16>(f16(f32(2.0f)), layout));
    if (out != Left::commit) commit_smem();
    if_((tid_x() & 127) == 0, [&] {
      tma_store(D, tile[group], 0, group * 64);
      cp_async_bulk_commit_group();
    });
    if (out != Left::wait) wait_stores(0, StoreWait::read);
    store(tile[group], RegisterTile<f16>(f16(f32(0.0f)), layout));
    wait_stores(0);
  });
  return k;
}

}  // namespace

TEST_CASE("writes are committed before TMA reads, and wait until it has read") {
  for (Left out : {Left::nothing, Left::commit, Left::wait}) {
    if (out != Left::nothing && device_name != "emulator") continue;  // only the emulator sees races
    Running running;
    runtime::Buffer d(*running.device, 128 * 64 * 2);
    d.fill(0);
    std::string problem = error_of([&] {
      launch(running, overwriting(out), {1, 1, 1}, {runtime::tensor(d, DType::f16, {64, 128})});
    });
    CAPTURE(problem);
    CHECK(problem.empty() == (out == Left::nothing));
    if (out != Left::nothing) continue;
    std::vector<std::byte> wanted(128 * 64 * 2);
    for (size_t i = 0; i < wanted.size(); i += 2) command::put(&wanted[i], DType::f16, 2);
    CHECK(d.copy_out<std::byte>() == wanted);
  }
}

int main(int argc, char** argv) { return run_tests(argc, argv); }
