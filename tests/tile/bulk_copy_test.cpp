// Tests copies of contiguous elements: copies that CTAs share, conditional copies, copies with hints,
// reductions, and copies between CTAs.
//
//   bulk_copy_test [--device=emulator|cuda|auto]
#include <fmt/format.h>

#include <numeric>
#include <random>

#include "copy_kit.h"
#include "library_kit.h"
#include "ptxbuilder/dtype.h"
#include "ptxbuilder/tile/barrier.h"
#include "ptxbuilder/tile/bulk.h"
#include "ptxbuilder/tile/commit.h"
#include "reduction_kit.h"

namespace ptxbuilder::test::bulk_copy_test {
namespace {

constexpr std::array<std::optional<Eviction>, 4> kHints = {std::nullopt, Eviction::normal, Eviction::first,
                                                           Eviction::last};

// Adds a hint to a LoadView, or to a CopyView for copies to global memory.
template <class View>
View hinted(const View& view, std::optional<Eviction> hint) {
  return hint ? view.evict(*hint) : view;
}

}  // namespace

TEST_CASE("CTAs share a bulk copy along any axes, with any hint") {
  constexpr size_t kElements = 512;
  Running running;
  const std::vector<std::byte> data = numbered(DType::bf16, 9 * kElements);
  for (unsigned bits = 0; bits < 8; ++bits)
    for (std::optional<Eviction> hint : kHints) {
      CAPTURE(bits);
      ClusterAxes axes;
      for (ClusterAxis axis : {ClusterAxis::x, ClusterAxis::y, ClusterAxis::z})
        if (bits >> static_cast<unsigned>(axis) & 1) axes = axes | axis;
      Kernel k("shared_by_ctas");
      auto [in, out] = k.params<gptr<bf16>, gptr<bf16>>("in", "out");
      k.cluster(2, 2, 2);
      SharedTile tile = k.shared<bf16>({8, kElements / 8});
      Barriers bar(k, {1});
      sync_cluster();
      // CTAs of a group have the same elements, and other groups have other elements.
      const std::array<u32, 3> at = {cluster_ctaid_x(), cluster_ctaid_y(), cluster_ctaid_z()};
      u32 part = 0;
      for (size_t i = 0; i < 3; ++i)
        if (!axes.has(i)) part = part * 2 + at[i];
      elect([&] {
        bulk_load(hinted(tile[0].expecting(bar[0]).multicast(axes), hint), in, part * kElements + 8);
        barrier_wait(bar[0], 0);
        bulk_store(out, cluster_ctarank() * kElements, hinted(CopyView(tile[0]), hint));
        cp_async_bulk_commit_group();
      });
      wait_stores(0);
      sync_cluster();  // shared memory must exist while other CTAs copy into it
      runtime::Buffer a = runtime::Buffer::of(*running.device, data), b(*running.device, 16 * kElements);
      b.fill(0xff);
      std::string ptx = launch(running, std::move(k), {2, 2, 2},
                               {runtime::pointer(a, DType::bf16), runtime::pointer(b, DType::bf16)});
      std::vector<std::byte> wanted;
      for (unsigned rank = 0; rank < 8; ++rank) {
        unsigned from = 0;
        for (unsigned i = 0; i < 3; ++i)
          if (!(bits >> i & 1)) from = from * 2 + (rank >> i & 1);
        auto first = data.begin() + 2 * (from * static_cast<int>(kElements) + 8);
        wanted.insert(wanted.end(), first, first + 2 * kElements);
      }
      CHECK(b.copy_out<std::byte>() == wanted);
      CHECK(contains(ptx, ".multicast::cluster") == (bits != 0));
      CHECK(count(ptx, ".L2::cache_hint") == (hint ? 2 : 0));
    }
}

TEST_CASE("bulk copies that threads do where a condition holds") {
  Running running;
  for (bool loads : {true, false})
    for (bool stores : {true, false}) {
      Kernel k("bulk");
      auto [in, out, does_load, does_store] =
          k.params<gptr<u32>, gptr<u32>, u32, u32>("in", "out", "loads", "stores");
      SharedTile tile = k.shared<u32>({1, 128});
      Barriers bar(k, {1});
      sync_threads();
      sptr<u32> words(tile[0].address());
      words[tid_x()] = 0xabcd;
      fence_proxy_async<Space::shared>();
      sync_threads();
      const pred first = tid_x() == 0;
      bulk_load(tile[0].expecting(bar[0]).when(first & (does_load == 1)), in, 128);
      if_(does_load == 1, [&] { barrier_wait(bar[0], 0); });
      bulk_store(out, 0, tile[0].when(first & (does_store == 1)));
      cp_async_bulk_commit_group();
      wait_stores(0);
      std::vector<uint32_t> data(256), wanted(128, 0x77777777);
      for (uint32_t i = 0; i < 256; ++i) data[i] = i * 3;
      for (uint32_t i = 0; stores && i < 128; ++i) wanted[i] = loads ? data[128 + i] : 0xabcd;
      runtime::Buffer a = runtime::Buffer::of(*running.device, data), b(*running.device, 512);
      b.fill(0x77);
      launch(running, std::move(k), {},
             {runtime::pointer(a, DType::u32), runtime::pointer(b, DType::u32),
              runtime::scalar(uint32_t{loads}), runtime::scalar(uint32_t{stores})});
      CHECK(b.copy_out<uint32_t>() == wanted);
    }
}

namespace {

constexpr uint32_t kWide = 80;  // elements from a row of the matrices to the next
constexpr uint32_t kMissing = 1 << 20;

struct RowsCase {
  int rows, cols;
  uint32_t count, column;
};

// Copies rows `from[i] + shift` of `in` to rows `to[i]` of `out`, in the columns starting at `column`. `from`
// is in shared memory.
Kernel moved_rows(const RowsCase& c, uint32_t shift, bool adds) {
  Kernel k("moved_rows");
  auto [in, out, from, to] =
      k.params<gptr<bf16>, gptr<bf16>, gptr<u32>, gptr<u32>>("in", "out", "from", "to");
  const SharedTile tile = k.shared<bf16>({c.rows, c.cols}), numbers = k.shared<u32>({1, 64});
  Barriers bar(k, {1});
  sync_threads();
  const sptr<u32> number(numbers[0].address());
  if_(tid_x() < u32(static_cast<uint32_t>(c.rows)), [&] { number[tid_x()] = u32(from[tid_x()]) + shift; });
  sync_threads();
  elect([&] {
    const IndexedRows<bf16> matrix{in, kWide, c.count}, result{out, kWide, c.count};
    bulk_gather(
        tile[0].expecting(bar[0]), matrix, [&](u32 row) { return u32(number[row]); }, c.column);
    barrier_wait(bar[0], 0);
    const RowIndex by = [&](u32 row) { return u32(to[row]); };
    if (adds)
      bulk_scatter_reduce(CopyReduction::add, result, tile[0], by, c.column);
    else
      bulk_scatter(result, tile[0], by, c.column);
    cp_async_bulk_commit_group();
  });
  wait_stores(0);
  return k;
}

}  // namespace

TEST_CASE("rows that an index names are gathered and scattered, and a neighbour's shows") {
  Running running;
  std::mt19937 random(11);
  for (const RowsCase& c : {RowsCase{16, 64, 24, 8}, {5, 8, 9, 72}, {13, 80, 40, 0}, {64, 16, 64, 40}})
    for (const bool adds : {false, true}) {
      CAPTURE(c.rows);
      CAPTURE(adds);
      std::vector<uint32_t> from(static_cast<size_t>(c.rows)), to(c.count);
      std::iota(to.begin(), to.end(), 0);
      std::shuffle(to.begin(), to.end(), random);
      to.resize(from.size(), 0);  // each row once or, if rows are added, two of them twice
      if (adds) to[1] = to[0], to[3] = to[2];
      to[4] = kMissing;
      for (uint32_t& row : from) row = random() % (c.count - 1);
      from[2] = kMissing;
      // Returns small integers, which bf16 adds exactly.
      const auto number = [](size_t i) { return static_cast<float>(i * 2654435761u % 61); };
      std::vector<uint16_t> in(c.count * kWide), before(in.size());
      for (size_t i = 0; i < in.size(); ++i)
        in[i] = static_cast<uint16_t>(encode(DType::bf16, number(i))),
        before[i] = static_cast<uint16_t>(encode(DType::bf16, 3));
      const auto run = [&](uint32_t shift) {
        const runtime::Buffer a = runtime::Buffer::of(*running.device, in),
                              d = runtime::Buffer::of(*running.device, before),
                              f = runtime::Buffer::of(*running.device, from),
                              t = runtime::Buffer::of(*running.device, to);
        launch(running, moved_rows(c, shift, adds), {1, 1, 1},
               {runtime::pointer(a, DType::bf16), runtime::pointer(d, DType::bf16),
                runtime::pointer(f, DType::u32), runtime::pointer(t, DType::u32)});
        return d.copy_out<uint16_t>();
      };
      std::vector<uint16_t> wanted = before;
      for (size_t row = 0; row < from.size(); ++row)
        for (int col = 0; col < c.cols && to[row] < c.count; ++col) {
          const size_t place = c.column + static_cast<size_t>(col);
          const double moved = decode(DType::bf16, in[std::min(from[row], c.count - 1) * kWide + place]);
          uint16_t& there = wanted[to[row] * kWide + place];
          there = static_cast<uint16_t>(encode(DType::bf16, moved + (adds ? decode(DType::bf16, there) : 0)));
        }
      CHECK(run(0) == wanted);
      CHECK(run(1) != wanted);
    }
}

TEST_CASE("misuse of rows by an index is named, and its twin is accepted") {
  const auto build = [](TileShape shape, Swizzle swizzle, uint32_t stride, bool shared = false) {
    Kernel k("misuse");
    auto [in, numbers] = k.params<gptr<bf16>, gptr<u32>>("in", "numbers");
    if (shared) k.cluster(2, 1, 1);
    const SharedTile tile = k.shared(DType::bf16, shape, swizzle, 1, "rows");
    Barriers bar(k, {1});
    elect([&] {
      const auto to = tile[0].expecting(bar[0]);
      const IndexedRows<bf16> rows{in, stride, 8};
      const RowIndex by = [&](u32 row) { return u32(numbers[row]); };
      if (shared)
        bulk_gather(to.multicast(ClusterAxis::x), rows, by);
      else
        bulk_gather(to, rows, by);
    });
  };
  build({16, 64}, Swizzle::none, 64);
  CHECK_ERROR(build({16, 64}, Swizzle::b128, 64), "whole rows without swizzle");
  CHECK_ERROR(build({16, 64}, Swizzle::none, 68), "rows of the matrix are 68 elements (136 B) apart");
  CHECK_ERROR(build({16, 64}, Swizzle::none, 64, true), "bulk_gather: 2 CTAs share the rows");
  const auto scatter = [](CopyReduction reduction) {
    Kernel k("misuse");
    auto [out, numbers] = k.params<gptr<f32>, gptr<u32>>("out", "numbers");
    const SharedTile tile = k.shared<f32>({8, 16});
    elect([&] {
      bulk_scatter_reduce(reduction, IndexedRows<f32>{out, 16, 8}, tile[0],
                          [&](u32 row) { return u32(numbers[row]); });
    });
  };
  scatter(CopyReduction::add);
  CHECK_ERROR(scatter(CopyReduction::bit_and), "bulk_scatter_reduce: and is not possible for f32");
}

namespace {

// Adds 8 rows of A to D, starting at element 16 of D.
Kernel joining(CopyReduction reduction, DType type, std::optional<Eviction> hint) {
  Kernel k("joining");
  auto [A, D] = k.params<gptr<u32>, gptr<u32>>("A", "D");
  SharedTile tile = k.shared(type, {8, 16});
  Barriers bar(k, {1});
  sync_threads();
  elect([&] {
    detail::bulk_load(tile[0].expecting(bar[0]), gmem(A), type, 0);
    barrier_wait(bar[0], 0);
    detail::bulk_store(reduction, gmem(D), type, 16, hinted(CopyView(tile[0]), hint));
    cp_async_bulk_commit_group();
  });
  wait_stores(0);
  return k;
}

}  // namespace

TEST_CASE("bulk reductions of every type that has them") {
  Running running;
  int count = 0;
  for (CopyReduction reduction : isa::kCopyReductions)
    for (DType type : isa::types_of(reduction)) {
      CAPTURE(isa::name(reduction));
      CAPTURE(name(type));
      const auto bytes = static_cast<size_t>(size_of(type));
      const std::vector<double> now = integers(128, 2654435761u), old = integers(192, 40503);
      std::vector<std::byte> in(now.size() * bytes), out(old.size() * bytes), wanted(out.size());
      for (size_t i = 0; i < now.size(); ++i) write_element(&in[i * bytes], type, now[i]);
      for (size_t i = 0; i < old.size(); ++i) {
        write_element(&out[i * bytes], type, old[i]);
        const bool inside = i >= 16 && i < 16 + now.size();
        write_element(&wanted[i * bytes], type, inside ? reduced(reduction, old[i], now[i - 16]) : old[i]);
      }
      const std::optional<Eviction> hint = kHints[static_cast<size_t>(count) % kHints.size()];
      runtime::Buffer a = runtime::Buffer::of(*running.device, in),
                      d = runtime::Buffer::of(*running.device, out);
      std::string ptx = launch(running, joining(reduction, type, hint), {},
                               {runtime::pointer(a, DType::u32), runtime::pointer(d, DType::u32)});
      CHECK(d.copy_out<std::byte>() == wanted);
      CHECK(contains(ptx, fmt::format("cp.reduce.async.bulk.global.shared::cta.bulk_group{}.{}.",
                                      hint ? ".L2::cache_hint" : "", isa::name(reduction))));
      ++count;
    }
  CHECK(count == 7 + 6 + 6 + 1 + 1 + 3 * 3);
}

TEST_CASE("a CTA sends its shared memory to the next of its cluster") {
  constexpr uint32_t kCtas = 4, kElements = 256, kBytes = 4 * kElements;
  Running running;
  Kernel k("to_cluster");
  auto [in, out] = k.params<gptr<u32>, gptr<u32>>("in", "out");
  k.cluster(kCtas);
  SharedTile own = k.shared<u32>({1, kElements}), got = k.shared<u32>({1, kElements});
  Barriers bar(k, {1, 1});
  sync_cluster();
  u32 rank = cluster_ctarank(), next = (rank + 1) & (kCtas - 1);
  elect([&] {
    cp_async_bulk_prefetch(gmem(in) + u64(rank) * kBytes, kBytes);
    mbarrier_arrive_expect_tx(bar[1], kBytes);
    bulk_load(own[0].expecting(bar[0]), in, rank * kElements);
    barrier_wait(bar[0], 0);
    cp_async_bulk_to_cluster(mapa(got[0].address(), next), own[0].address(), kBytes, mapa(bar[1], next));
    barrier_wait(bar[1], 0);
    bulk_store(out, rank * kElements, got[0]);
    cp_async_bulk_commit_group();
  });
  wait_stores(0);
  sync_cluster();
  std::vector<uint32_t> data(kCtas * kElements), wanted(data.size());
  for (uint32_t i = 0; i < data.size(); ++i) {
    data[i] = i * 2654435761u;
    wanted[(i + kElements) % data.size()] = data[i];
  }
  runtime::Buffer a = runtime::Buffer::of(*running.device, data), b(*running.device, kCtas * kBytes);
  b.fill(0xff);
  launch(running, std::move(k), {kCtas}, {runtime::pointer(a, DType::u32), runtime::pointer(b, DType::u32)});
  CHECK(b.copy_out<uint32_t>() == wanted);
}

}  // namespace ptxbuilder::test::bulk_copy_test
