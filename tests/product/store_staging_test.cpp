// Tests stores through staging that the author provides: the memory of an operand, which several stores
// share.
//
//   store_staging_test [--device=emulator|cuda|auto]
#include "copy_kit.h"
#include "library_kit.h"
#include "ptxbuilder/dtype.h"
#include "ptxbuilder/product/store.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/barrier.h"

namespace ptxbuilder::test::store_staging_test {
namespace {

constexpr int kRows = 128, kCols = 64;
enum class Order : uint8_t { one_by_one, deferred };

// Computes D = A in bf16 and E = A + 1 in f32, in two warpgroups with 64 rows each. Both are stored through
// the memory of A, or through separate buffers. If the first store is deferred, the second is between its two
// steps.
Kernel stored(bool shares, Order order) {
  Kernel k("stored");
  auto [A, D, E] = k.params<TensorMap, TensorMap, TensorMap>("A", "D", "E");
  const int across = order == Order::deferred ? 2 : 1;
  auto tile = k.shared<bf16>({kRows, kCols * across}, Swizzle128B, 2 / across, "tile");
  Barriers bar(k, {1});
  NamedBarrier both = k.named_barrier(256);
  k.warpgroups(2, 0, [&, from = A, d = D, e = E](u32 wg) {
    if_(wg == 0, [&] { elect([&] { tma_load(tile[0].expecting(bar[0]), from, 0, 0); }); });
    barrier_wait(bar[0], 0);
    const auto x = load<bf16>(tile[0].rows(wg * 64, 64), wgmma_layout(64, kCols * across));
    both.sync();  // nothing reads the tile after this
    StoreOptions through;
    if (shares) through.staging = order == Order::deferred ? SharedRegion(tile[0]) : SharedRegion(tile);
    const auto y = astype<f32>(x) + 1;
    if (order == Order::one_by_one) {
      store<bf16>(d, x, wg * 64, 0, through);
      store<f32>(e, y, wg * 64, 0, through);
      store<bf16>(d, x, wg * 64, kCols, through);
      return;
    }
    DeferredStore out(DType::bf16, d, {64, 2 * kCols}, through);
    out.take(x, wg * 64, 0);
    out.step(0);
    store<f32>(e, y, wg * 64, 0, through);
    out.step(1);
  });
  return k;
}

}  // namespace

TEST_CASE("stores share the memory of a tile that is no longer needed") {
  Running running;
  for (Order order : {Order::one_by_one, Order::deferred})
    for (bool shares : {false, true}) {
      CAPTURE(static_cast<int>(order));
      CAPTURE(shares);
      const size_t cols = order == Order::deferred ? 2 * kCols : kCols;
      std::vector<std::byte> a(kRows * cols * 2);
      std::vector<float> sums(kRows * cols);
      std::vector<std::byte> d_wanted(kRows * 2 * kCols * 2);
      for (size_t i = 0; i < sums.size(); ++i) {
        const double value = static_cast<double>(i * 37 % 251);
        write_element(&a[2 * i], DType::bf16, value);
        sums[i] = static_cast<float>(value + 1);
        for (size_t copy = 0; copy < 2 * kCols / cols; ++copy)
          write_element(&d_wanted[2 * (i / cols * 2 * kCols + copy * kCols + i % cols)], DType::bf16, value);
      }
      runtime::Buffer from = runtime::Buffer::of(*running.device, a), d(*running.device, d_wanted.size()),
                      e(*running.device, sums.size() * 4);
      Kernel kernel = stored(shares, order);
      const auto& objects = kernel.signature().shared;
      CHECK(std::any_of(objects.begin(), objects.end(),
                        [](const SharedObject& o) { return o.name == "store staging"; }) == !shares);
      launch(running, std::move(kernel), {1, 1, 1},
             {runtime::tensor(from, DType::bf16, {cols, kRows}),
              runtime::tensor(d, DType::bf16, {2 * kCols, kRows}),
              runtime::tensor(e, DType::f32, {cols, kRows})});
      CHECK(d.copy_out<std::byte>() == d_wanted);
      CHECK(e.copy_out<float>() == sums);
    }
}

}  // namespace ptxbuilder::test::store_staging_test
