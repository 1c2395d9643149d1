// Tests tensor copies that CTAs share, that reduce, that give L2 a hint, and that collapse or omit
// dimensions. A model on the host determines where every element must be.
//
//   tensor_slice_test [--device=emulator|cuda|auto]
#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "copy_kit.h"
#include "library_kit.h"
#include "ptxbuilder/dtype.h"
#include "ptxbuilder/proof/proof.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/barrier.h"
#include "ptxbuilder/tile/commit.h"
#include "ptxbuilder/tile/tma_tensor.h"
#include "reduction_kit.h"

namespace ptxbuilder::test::tensor_slice_test {
namespace {

using Cluster = std::array<uint32_t, 3>;

uint32_t ctas(const Cluster& c) { return c[0] * c[1] * c[2]; }
runtime::Dim3 grid_of(const Cluster& c) { return {c[0], c[1], c[2]}; }

runtime::Argument mapped(const runtime::Buffer& buffer, const TensorCopy& copy,
                         const std::vector<int64_t>& extents, const std::vector<int64_t>& strides) {
  TensorCopy::MappedTensor map = copy.map_tensor(extents, strides);
  return runtime::tensor(buffer, copy.dtype(), map.shape, map.strides);
}

// Each CTA gets a tile, which it shares along axes, and writes the tile after those of lower ranks.
Kernel shared_by_ctas(const TensorCopy& copy, const Cluster& cluster, ClusterAxes axes) {
  Kernel k("shared_by_ctas");
  auto [A, out] = k.params<TensorMap, gptr<u32>>("A", "out");
  k.cluster(cluster[0], cluster[1], cluster[2]);
  const auto rows = static_cast<int>(copy.extents()[0]), cols = static_cast<int>(copy.extents()[1]);
  SharedTile tile = k.shared(copy.dtype(), {rows, cols}, Swizzle::none, 1, "tile");
  Barriers bar(k, {1});
  sync_cluster();
  // CTAs of a group have the same rows of the tensor, and other groups have other rows.
  std::array<u32, 3> at = {cluster_ctaid_x(), cluster_ctaid_y(), cluster_ctaid_z()};
  for (size_t i = 0; i < 3; ++i)
    if (axes.has(i)) at[i] = 0;
  u32 line = at[0] + at[1] * cluster[0] + at[2] * (cluster[0] * cluster[1]);
  elect([&] {
    mbarrier_arrive_expect_tx(bar[0], static_cast<uint32_t>(copy.bytes()));
    tma_load(copy, tile[0].on(bar[0]).multicast(axes), A, {ds(line * rows, rows), ds(0, cols)});
  });
  barrier_wait(bar[0], 0);
  smem place = tile[0].address();
  gmem to = gmem(out) + u64(cluster_ctarank()) * static_cast<uint64_t>(copy.bytes());
  write_out(to, place, copy.dtype(), rows, cols, copy.shared_layout());
  sync_cluster();  // shared memory must exist while other CTAs copy into it
  return k;
}

}  // namespace

TEST_CASE("CTAs share a tensor copy along x, y and z, and along some of them") {
  struct Case {
    std::vector<int64_t> extents;
    std::vector<CopyTransform> transforms;
    Swizzle swizzle;
  };
  const TileTransform by64{{64, 64}};
  const std::vector<Case> cases = {
      {{64, 64}, {}, Swizzle::b128},        // one box, cut along its rows
      {{64, 128}, {}, Swizzle::b128},       // two panels
      {{96, 128}, {}, Swizzle::b128},       // also cut along rows within the panels
      {{128, 128}, {by64}, Swizzle::b128},  // 2 x 2 tiles in one box
      {{128, 128}, {by64, TransposeTransform{{1, 0, 2, 3}}}, Swizzle::b128},
      {{64, 64}, {}, Swizzle::none},
  };
  Running running;
  int count = 0;
  for (const Case& c : cases)
    for (const Cluster& cluster : {Cluster{2, 1, 1}, {1, 2, 1}, {1, 1, 2}, {2, 2, 1}, {4, 1, 2}, {2, 2, 2}})
      for (ClusterAxes axes :
           {ClusterAxes(ClusterAxis::x), ClusterAxes(ClusterAxis::y), ClusterAxes(ClusterAxis::z),
            ClusterAxis::x | ClusterAxis::y, ClusterAxis::z | ClusterAxis::x,
            ClusterAxis::x | ClusterAxis::y | ClusterAxis::z}) {
        TensorCopy copy(DType::bf16, c.extents, c.transforms, c.swizzle);
        const int64_t rows = c.extents[0], cols = c.extents[1];
        const uint32_t all = ctas(cluster);
        CAPTURE(copy.describe());
        CAPTURE(all);
        std::vector<std::byte> matrix = numbered(DType::bf16, static_cast<size_t>(rows * cols * all)), wanted;
        runtime::Buffer a = runtime::Buffer::of(*running.device, matrix), out(*running.device, matrix.size());
        out.fill(0xff);
        int in_group = 1;
        for (size_t i = 0; i < 3; ++i)
          if (axes.has(i)) in_group *= static_cast<int>(cluster[i]);
        const TensorCopy divided = copy.divided(in_group);
        CHECK(divided.boxes().parts == in_group);
        CHECK(divided.boxes().count() * divided.box_bytes() == copy.bytes());
        Kernel kernel = shared_by_ctas(copy, cluster, axes);
        CHECK((kernel.signature().parameters[0].tensor_map == divided.recipe()));
        std::string ptx =
            launch(running, std::move(kernel), grid_of(cluster),
                   {mapped(a, copy, {rows * all, cols}, {cols, 1}), runtime::pointer(out, DType::u32)});
        CHECK(contains(ptx, ".multicast::cluster") == (in_group > 1));
        for (uint32_t rank = 0; rank < all; ++rank) {
          std::array<uint32_t, 3> at = {rank % cluster[0], rank / cluster[0] % cluster[1],
                                        rank / cluster[0] / cluster[1]};
          for (size_t i = 0; i < 3; ++i)
            if (axes.has(i)) at[i] = 0;
          const uint32_t line = at[0] + at[1] * cluster[0] + at[2] * cluster[0] * cluster[1];
          std::vector<std::byte> part = rows_of(matrix, cols, line * rows, 0, rows, cols, 2);
          wanted.insert(wanted.end(), part.begin(), part.end());
        }
        CHECK(out.copy_out<std::byte>() == wanted);
        ++count;
      }
  CHECK(count == 6 * 6 * 6);
}

namespace {

// In a cluster of 2 x 2 x 2, each line or plane of CTAs along `axes` has its own 64 rows.
std::vector<std::byte> shared_views(const Running& running, ClusterAxes axes,
                                    const std::vector<std::byte>& matrix) {
  const Cluster cluster = {2, 2, 2};
  Kernel k("views");
  auto [A, out] = k.params<TensorMap, gptr<u32>>("A", "out");
  k.cluster(cluster[0], cluster[1], cluster[2]);
  SharedTile tile = k.shared<bf16>({64, 64}, Swizzle128B);
  Barriers bar(k, {1});
  sync_cluster();
  u32 part = 0;
  const std::array<u32, 3> at = {cluster_ctaid_x(), cluster_ctaid_y(), cluster_ctaid_z()};
  for (size_t i = 0; i < 3; ++i)
    if (!axes.has(i)) part = part * 2 + at[i];
  elect([&] { tma_load(tile[0].expecting(bar[0]).multicast(axes), A, 0, part * 64); });
  barrier_wait(bar[0], 0);
  write_out(gmem(out) + u64(cluster_ctarank()) * 8192, tile[0].address(), DType::bf16, 64, 64,
            tile[0].layout());
  sync_cluster();
  runtime::Buffer a = runtime::Buffer::of(*running.device, matrix), b(*running.device, 8 * 8192);
  b.fill(0xff);
  launch(running, std::move(k), grid_of(cluster),
         {runtime::tensor(a, DType::bf16, {64, 256}), runtime::pointer(b, DType::u32)});
  return b.copy_out<std::byte>();
}

}  // namespace

TEST_CASE("views are shared along any axes") {
  Running running;
  const std::vector<std::byte> matrix = numbered(DType::bf16, 4 * 64 * 64);
  for (unsigned bits = 1; bits < 8; ++bits) {
    ClusterAxes axes;
    for (ClusterAxis axis : {ClusterAxis::x, ClusterAxis::y, ClusterAxis::z})
      if (bits >> static_cast<unsigned>(axis) & 1) axes = axes | axis;
    std::vector<std::byte> wanted;
    for (unsigned rank = 0; rank < 8; ++rank) {
      unsigned part = 0;
      for (unsigned i = 0; i < 3; ++i)
        if (!(bits >> i & 1)) part = part * 2 + (rank >> i & 1);
      wanted.insert(wanted.end(), matrix.begin() + part * 8192, matrix.begin() + (part + 1) * 8192);
    }
    CAPTURE(bits);
    CHECK(shared_views(running, axes, matrix) == wanted);
  }
}

namespace {

enum class Form : uint8_t { view, copy, address };

// All threads of a CTA call the loads and stores of a 16 x 64 tile that begins at element (-8, -8) of the
// tensor. Only the threads that a condition selects perform them. `fill` defines what is outside of the
// tensor. On the device, `loads` and `stores` are 0 or 1.
Kernel conditional(DType type, Form form, OobFill fill) {
  Kernel k("conditional");
  auto [A, D, loads, stores] = k.params<TensorMap, TensorMap, u32, u32>("A", "D", "loads", "stores");
  const TensorCopy copy(type, {16, 64}, {}, Swizzle::none);
  SharedTile tile = k.shared(type, {16, 64});
  Barriers bar(k, {1});
  sync_threads();
  TiledCopy bytes(CopyAtom::vector(4), type, threads_along_rows(16, 64, 128, 4 / size_of(type)),
                  tile[0].layout());
  store(bytes, tile[0].address(), tid_x(), std::vector<u32>(static_cast<size_t>(2 * size_of(type)), u32(0)));
  fence_proxy_async<Space::shared>();
  sync_threads();
  const pred first = tid_x() == 0, load = first & (loads == 1), keep = first & (stores == 1);
  const std::vector<Slice> from = {ds(u32(s32(-8)), 16), ds(u32(s32(-8)), 64)}, to = {ds(0, 16), ds(0, 64)};
  const LoadView loaded = tile[0].expecting(bar[0]).outside(fill).when(load);
  if (form == Form::view)
    tma_load(loaded, A, -8, -8);
  else if (form == Form::copy)
    tma_load(copy, loaded, A, from);
  else {
    mbarrier_arrive_expect_tx.when(load)(bar[0], static_cast<uint32_t>(copy.bytes()));
    tma_load(copy, tile[0].address(), A, from, bar[0], load);
  }
  if_(loads == 1, [&] { barrier_wait(bar[0], 0); });
  if (form == Form::view)
    tma_store(D, tile[0].when(keep), 0, 0);
  else if (form == Form::copy)
    tma_store(copy, D, to, tile[0].when(keep));
  else
    tma_store(copy, D, to, tile[0].address(), keep);
  cp_async_bulk_commit_group();
  wait_stores(0);
  return k;
}

}  // namespace

TEST_CASE("copies that threads make if a condition holds, and the values outside") {
  Running running;
  int count = 0;
  for (DType type : {DType::bf16, DType::f32, DType::u32})
    for (Form form : {Form::view, Form::copy, Form::address})
      for (OobFill fill : {OobFill::zero, OobFill::nan})
        for (bool loads : {true, false})
          for (bool stores : {true, false}) {
            if (fill == OobFill::nan && (type == DType::u32 || form == Form::address)) continue;
            const auto bytes = static_cast<size_t>(size_of(type));
            std::vector<std::byte> in(32 * 64 * bytes);
            for (size_t i = 0; i < 32 * 64; ++i)
              write_element(&in[i * bytes], type, 1 + static_cast<double>(i % 50));
            runtime::Buffer a = runtime::Buffer::of(*running.device, in), d(*running.device, 16 * 64 * bytes);
            d.fill(0x11);
            Kernel kernel = conditional(type, form, fill);
            CHECK((kernel.signature().parameters[0].tensor_map.oob_fill == fill));
            CHECK((kernel.signature().parameters[1].tensor_map.oob_fill == OobFill::zero));
            launch(running, std::move(kernel), {1, 1, 1},
                   {runtime::tensor(a, type, {64, 32}), runtime::tensor(d, type, {64, 16}),
                    runtime::scalar(uint32_t{loads}), runtime::scalar(uint32_t{stores})});
            const std::vector<std::byte> out = d.copy_out<std::byte>();
            size_t wrong = 0;
            for (size_t i = 0; i < 16 * 64; ++i) {
              const size_t row = i / 64, col = i % 64;
              const bool inside = row >= 8 && col >= 8;
              const std::byte* now = &out[i * bytes];
              if (!stores)
                wrong += std::any_of(now, now + bytes, [](std::byte b) { return b != std::byte{0x11}; });
              else if (loads && !inside && fill == OobFill::nan)
                wrong += !std::isnan(read_element(now, type));
              else if (loads && inside)
                wrong += std::memcmp(now, &in[((row - 8) * 64 + col - 8) * bytes], bytes) != 0;
              else
                wrong += std::any_of(now, now + bytes, [](std::byte b) { return b != std::byte{0}; });
            }
            CAPTURE(name(type));
            CAPTURE(static_cast<int>(form));
            CAPTURE(loads);
            CAPTURE(stores);
            CHECK(wrong == 0);
            ++count;
          }
  CHECK(count == 4 * (2 * (2 + 2 + 1) + 3));
}

namespace {

// Reduces a tile of A into D twice: with a view, and with a tensor copy of 32-byte spans.
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
        for (size_t i = 0; i < now.size(); ++i) write_element(&in[i * bytes], type, now[i]);
        for (size_t i = 0; i < old.size(); ++i) {
          write_element(&out[i * bytes], type, old[i]);
          const size_t row = i / extent - 8, col = i % extent - 8;
          const bool inside = row < rows && col < cols;
          write_element(&wanted[i * bytes], type,
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
    CopyView view = hint ? tile[0].evict(*hint) : tile[0];
    elect([&] {
      mbarrier_arrive_expect_tx(bar[0], static_cast<uint32_t>(view.place().bytes()));
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
    CHECK(count(ptx, "createpolicy.fractional.L2::evict_") ==
          (hint ? 1 : 0));  // one policy serves all four copies
    CHECK(count(ptx, ".L2::cache_hint") == (hint ? 4 : 0));
  }
}

TEST_CASE("six dimensions in a tensor map of three: collapsed, left out, transposed") {
  Running running;
  // Elements are at [2, i1, 0, i3, rows, cols], and the strides leave gaps after rows.
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
    // The transforms place two panels of 32 columns here.
    tma_store(D, tile[0], 0, 0);
    cp_async_bulk_commit_group();
  });
  wait_stores(0);
  Compiled compiled = running.compile(std::move(k));
  std::vector<std::byte> tensor = numbered(DType::bf16, static_cast<size_t>(3 * strides[0]));
  for (auto [x, y, z] : {std::array{0, 0, 0}, {2, 3, 1}, {1, 2, 0}}) {
    runtime::Buffer a = runtime::Buffer::of(*running.device, tensor), d(*running.device, 32 * 64 * 2);
    runtime::LoadedKernel kernel(*running.device, compiled.ptx, compiled.signature);
    kernel.launch({.grid = {1}},
                  {mapped(a, copy, extents, strides), runtime::tensor(d, DType::bf16, {64, 32}),
                   runtime::scalar(static_cast<uint32_t>(x)), runtime::scalar(static_cast<uint32_t>(y)),
                   runtime::scalar(static_cast<uint32_t>(z))});
    running.device->synchronize();
    const int64_t first = x * strides[0] + y * strides[1] + z * strides[3];
    CHECK(d.copy_out<std::byte>() == rows_of(tensor, 80, first / 80, 0, 32, 64, 2));
  }
}

namespace {

enum class Left : uint8_t { nothing, commit, wait };

// Each warpgroup of a role fills its tile with twos, stores it, and sets it to zero. D must not show the
// zeros.
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
    if (out != Left::nothing && device_name != "emulator") continue;  // only the emulator detects races
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
    for (size_t i = 0; i < wanted.size(); i += 2) write_element(&wanted[i], DType::f16, 2);
    CHECK(d.copy_out<std::byte>() == wanted);
  }
}

namespace {

// At the end of its role, a warpgroup stores a box, slices, or contiguous elements.
enum class Way : uint8_t { box, slices, elements };

// Each of two warpgroups writes its rank + 2 to its 8 rows, and stores or reduces them in one of these ways.
// If `commit` is false, TMA may read before the warpgroup has written.
Kernel given_out(Way way, bool reduces, bool commit) {
  Kernel k("given_out");
  auto [D, d] = k.params<TensorMap, gptr<f32>>("D", "d");
  const TensorCopy copy(DType::f32, {8, 32});
  SharedTile tile = k.shared<f32>({8, 32}, Swizzle::none, 2);
  k.warpgroups(2, 0, [&, map = D, to = d](u32 group) {
    store(tile[group], RegisterTile<f32>(f32(s32(group)) + 2, strided({8, 32}, 2)));
    const TileView from = tile[group];
    const u32 row = group * 8, start = group * 256;
    const std::vector<Slice> slices = {ds(row, 8), ds(0, 32)};
    constexpr CopyReduction add = CopyReduction::add;
    if (!commit) {
      if_(detail::issues_stores(), [&] {
        bulk_store(to, start, from);
        cp_async_bulk_commit_group();
      });
      wait_stores(0);
    } else if (way == Way::box) {
      reduces ? reduce_out(add, map, from, 0, row) : store_out(map, from, 0, row);
    } else if (way == Way::slices) {
      reduces ? reduce_out(add, copy, map, slices, from) : store_out(copy, map, slices, from);
    } else {
      reduces ? reduce_out(add, to, start, from) : store_out(to, start, from);
    }
  });
  if (way == Way::elements) k.encode(D, {DType::f32, {32, 8}, {1, 1}});
  return k;
}

}  // namespace

TEST_CASE("the end of a role waits for boxes, slices and elements that it stores and reduces") {
  Running running;
  auto run = [&](Kernel kernel, std::vector<float>& out) {
    runtime::Buffer d = runtime::Buffer::of(*running.device, out);
    std::string ptx = launch(running, std::move(kernel), {},
                             {runtime::tensor(d, DType::f32, {32, 16}), runtime::pointer(d, DType::f32)});
    out = d.copy_out<float>();
    return ptx;
  };
  for (Way way : {Way::box, Way::slices, Way::elements})
    for (bool reduces : {false, true}) {
      CAPTURE(static_cast<int>(way));
      CAPTURE(reduces);
      std::vector<float> out(16 * 32, 10), wanted = out;
      for (size_t i = 0; i < wanted.size(); ++i)
        wanted[i] = (reduces ? 10.0f : 0.0f) + (i < wanted.size() / 2 ? 2.0f : 3.0f);
      const std::string ptx = run(given_out(way, reduces, true), out);
      CHECK(out == wanted);
      CHECK(contains(ptx, "cp.reduce.async.bulk") == reduces);
      CHECK(contains(ptx, ".tensor") == (way != Way::elements));
      CHECK(count(ptx, "cp.async.bulk.wait_group.read") == 1);
    }
  if (device_name != "emulator") return;  // only the emulator detects races
  std::vector<float> out(16 * 32);
  CHECK_FALSE(error_of([&] { run(given_out(Way::elements, false, false), out); }).empty());
}

namespace {

struct HighTile {
  DType type;
  TileShape shape;
  Swizzle swizzle;
  int copies;  // number of copies by a CTA if two CTAs share the load
};

// The tile has more rows or columns than a box. The kernel loads, stores and prefetches it, and two CTAs may
// share the load.
Kernel high(const HighTile& of, bool shared) {
  Kernel k("high");
  auto [A, D] = k.params<TensorMap, TensorMap>("A", "D");
  if (shared) k.cluster(2);
  SharedTile tile = k.shared(of.type, of.shape, of.swizzle);
  Barriers bar(k, {1});
  sync_cluster();
  elect([&] {
    const LoadView to = tile[0].expecting(bar[0]);
    const LoadView by = shared ? to.multicast(ClusterAxis::x) : to;
    tma_load(by, A, 0, 8);
    barrier_wait(bar[0], 0);
    tma_store(D, tile[0], 0, ctaid_x() * of.shape.rows);
    cp_async_bulk_commit_group();
  });
  wait_stores(0);
  sync_cluster();
  return k;
}

}  // namespace

TEST_CASE("tiles of more than 256 rows or columns are copied in several boxes") {
  Running running;
  const std::vector<HighTile> tiles = {
      {DType::bf16, {384, 64}, Swizzle128B, 1},     {DType::bf16, {528, 64}, Swizzle128B, 3},
      {DType::bf16, {384, 128}, Swizzle128B, 2},    {DType::u8, {640, 32}, Swizzle32B, 2},
      {DType::f32, {2, 512}, Swizzle::none, 2},     {DType::u8, {4, 1024}, Swizzle::none, 8},
      {DType::u8, {4, 1024, 512}, Swizzle::none, 8}};
  for (const HighTile& tile : tiles)
    for (bool shared : {false, true}) {
      const auto [rows, cols, panel] = tile.shape;
      const int64_t bytes = size_of(tile.type);
      CAPTURE(fmt::format("{} {} x {}", name(tile.type), rows, cols));
      CAPTURE(shared);
      const std::vector<std::byte> in = numbered(tile.type, static_cast<size_t>((rows + 8) * cols));
      runtime::Buffer a = runtime::Buffer::of(*running.device, in),
                      d(*running.device, static_cast<size_t>(2 * rows * cols * bytes));
      d.fill(0x77);
      Kernel kernel = high(tile, shared);
      const Proof proof = prove(kernel.record());
      CHECK_MESSAGE(proof, (proof ? "" : proof.counterexample->text()));
      const auto width = static_cast<uint64_t>(cols), height = static_cast<uint64_t>(rows);
      const std::string ptx = launch(running, std::move(kernel), {2, 1, 1},
                                     {runtime::tensor(a, tile.type, {width, height + 8}),
                                      runtime::tensor(d, tile.type, {width, 2 * height})});
      std::vector<std::byte> wanted = rows_of(in, cols, 8, 0, rows, cols, static_cast<int>(bytes));
      wanted.insert(wanted.end(), wanted.begin(), wanted.begin() + rows * cols * bytes);
      CHECK(d.copy_out<std::byte>() == wanted);
      if (shared) CHECK(count(ptx, "multicast::cluster") == static_cast<size_t>(tile.copies));
    }
}

TEST_CASE("prefetches into L2 are correct and write nothing") {
  Running running;
  Kernel k("ahead");
  auto [A, out] = k.params<TensorMap, gptr<u32>>("A", "out");
  k.cluster(2);
  SharedTile tile = k.shared<bf16>({64, 128}, Swizzle128B);
  Barriers bar(k, {1});
  sync_cluster();
  sptr<u32> words(tile[0].address());
  for (uint32_t i = 0; i < 64 * 128 / 2; i += 128) words[i + tid_x()] = 7;
  sync_threads();
  const LoadView shared = tile[0].multicast(ClusterAxis::x);
  elect([&] { tma_prefetch(shared, A, 0, -8); });
  gptr<u32> seen(gmem(out) + u64(cluster_ctarank()) * 32768);
  for (uint32_t i = 0; i < 64 * 128 / 2; i += 128) seen[i + tid_x()] = words[i + tid_x()].value();
  fence_proxy_async<Space::shared>();
  sync_threads();
  sync_cluster();
  elect([&] { tma_load(shared.expecting(bar[0]), A, 0, -8); });
  barrier_wait(bar[0], 0);
  write_out(gmem(out) + (u64(cluster_ctarank()) * 32768 + 16384), tile[0].address(), DType::bf16, 64, 128,
            tile[0].layout());
  sync_cluster();
  const std::vector<std::byte> matrix = numbered(DType::bf16, 64 * 128);
  runtime::Buffer a = runtime::Buffer::of(*running.device, matrix), b(*running.device, 2 * 32768);
  b.fill(0xff);
  std::string ptx = launch(running, std::move(k), {2, 1, 1},
                           {runtime::tensor(a, DType::bf16, {128, 64}), runtime::pointer(b, DType::u32)});
  // Each CTA prefetches two panels of its own half.
  CHECK(count(ptx, "cp.async.bulk.prefetch.tensor.2d.L2.global [") == 2);
  std::vector<std::byte> wanted;
  for (int rank = 0; rank < 2; ++rank) {
    for (int i = 0; i < 4096; ++i) wanted.insert(wanted.end(), {std::byte{7}, {}, {}, {}});
    wanted.insert(wanted.end(), 8 * 256, std::byte{0});
    wanted.insert(wanted.end(), matrix.begin(), matrix.begin() + 56 * 256);
  }
  CHECK(b.copy_out<std::byte>() == wanted);
}

TEST_CASE("a tensor map with the author's encoding, and one with L2 promotion") {
  Running running;
  Kernel k("encoded");
  auto [A, D] = k.params<TensorMap, TensorMap>("A", "D");
  // The map contains every second one of 64 rows.
  k.encode(
      A,
      {.dtype = DType::f32, .box = {96, 64}, .element_strides = {1, 2}, .l2_promotion = L2Promotion::b128});
  k.promote(D, L2Promotion::none);
  SharedTile tile = k.shared<f32>({32, 96});
  Barriers bar(k, {1});
  sync_threads();
  elect([&] {
    mbarrier_arrive_expect_tx(bar[0], static_cast<uint32_t>(tile[0].bytes()));
    const std::vector<Argument> arguments = {tile[0].address(), A, s32(0), s32(4), bar[0]};
    k.builder().emit(isa::cp_async_bulk_tensor_load({.rank = 2}), arguments, std::nullopt, Where::here());
    barrier_wait(bar[0], 0);
    tma_store(D, tile[0], 0, 0);
    cp_async_bulk_commit_group();
  });
  wait_stores(0);
  CHECK((k.signature().parameters[0].tensor_map.l2_promotion == L2Promotion::b128));
  CHECK((k.signature().parameters[1].tensor_map.l2_promotion == L2Promotion::none));
  std::vector<uint32_t> matrix(128 * 96), wanted(32 * 96);
  for (uint32_t i = 0; i < matrix.size(); ++i) matrix[i] = i;
  for (uint32_t i = 0; i < wanted.size(); ++i) wanted[i] = (4 + i / 96 * 2) * 96 + i % 96;
  runtime::Buffer a = runtime::Buffer::of(*running.device, matrix), d(*running.device, wanted.size() * 4);
  d.fill(0xff);
  launch(running, std::move(k), {1, 1, 1},
         {runtime::tensor(a, DType::f32, {96, 128}), runtime::tensor(d, DType::f32, {96, 32})});
  CHECK(d.copy_out<uint32_t>() == wanted);
}

}  // namespace ptxbuilder::test::tensor_slice_test
