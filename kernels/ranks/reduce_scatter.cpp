#include "kernels/ranks/reduce_scatter.h"

#include "kernels/ranks/exchange.h"
#include "kernels/ranks/mainloop.h"
#include "ptxbuilder/product/collective.h"
#include "ptxbuilder/product/epilogue.h"
#include "ptxbuilder/tile/commit.h"
#include "ptxbuilder/tile/named_barrier.h"
#include "ptxbuilder/tile/tma.h"

namespace ptxbuilder::kernels {
namespace {

// A warpgroup's sums on their way to the next rank: they are stored under the next tile's products, and their
// signal waits until they have come there, ahead of the sums behind them.
class SumsSent {
 public:
  explicit SumsSent(const Exchange& exchange) : exchange_(exchange), owed_(kNothing) {}

  void owe(pred sends, u32 block) { owed_ = select(sends, block, u32(kNothing)); }
  void pay() {
    if_((owed_.value() != kNothing) & detail::issues_stores(), [&] {
      cp_async_bulk_wait_group(0);
      exchange_.signal(owed_);
    });
  }

 private:
  static constexpr uint32_t kNothing = ~0u;
  const Exchange& exchange_;
  Var<u32> owed_;
};

template <class T>
Kernel build(const RankedTile& t) {
  Kernel k("product_reduce_scatter");
  k.cluster(static_cast<uint32_t>(t.cluster));
  k.cooperative();
  auto [A, B, came, next_sums, D, own, next, previous, rows, N, K, rank] =
      k.params<TensorMap, TensorMap, gptr<T>, TensorMap, TensorMap, gptr<u32>, gptr<u32>, gptr<u32>, u32, u32,
               u32, u32>("A", "B", "sums", "next_sums", "D", "words", "next_words", "previous_words", "rows",
                         "N", "K", "rank");
  auto sA = k.shared<T>({t.bm, t.bk}, Swizzle128B, t.stages);
  auto sB = k.shared<T>({t.bn, t.bk}, Swizzle128B, t.stages);
  Pipeline pipe(k, t.stages, {sA, sB}, t.consumers(), Producers::cluster);
  const Exchange exchange(own, next, previous);
  const RankedOrder order(t, rank, rows, N, -1);
  const u32 depth = ceil_div(K, t.bk);

  k.warpgroups(1, 40, [&, a = A, b = B](u32) {
    name_role("producer");
    elect([&] {
      auto ring = pipe.producer();
      exchange.open();
      order.each([&](const RankedPlace& tile) {
        producer_loop(ring, 0, depth, [&](const Stage& s, u32 kt) {
          tma_load(sA[s], a, kt * t.bk, tile.row, tile.owner);
          tma_load(sB[s].multicast(ClusterAxis::x), b, kt * t.bk, tile.col);
        });
      });
      exchange.left();
    });
  });
  k.warpgroups(t.consumers(), 232,
               [&, to_next = next_sums, d = D, memory = came, n = N, all = rows, self = rank](u32 wg) {
                 name_role("consumer");
                 auto ring = pipe.consumer();
                 Accumulator sums(64, t.bn);
                 const auto place = [&](u32 owner) {
                   const pred is_own = owner == self;
                   return std::pair(choose(select(is_own, u32(1), u32(0)), {to_next, d}),
                                    select(is_own, u32(0), owner));
                 };
                 DeferredStore out(t.type, to_next, {64, t.bn}, {.batch = u32(0), .place_of_batch = place});
                 const GlobalTensor<T, 3> came_sums(memory, {u32(static_cast<uint32_t>(t.ranks)), all, n});
                 SumsSent sent(exchange);
                 order.each([&](const RankedPlace& tile) {
                   ranked_mainloop(
                       sums, ring, depth,
                       [&](const Stage& s) { return std::pair(sA[s].rows(wg * 64, 64), sB[s]); }, out);
                   sent.pay();
                   const u32 block = (tile.block * order.columns() + tile.col / t.bn) * t.consumers() + wg;
                   const pred adds = (tile.phase > 0) & tile.is_inside,
                              sends = (tile.owner != self) & tile.is_inside;
                   const u32 row = tile.row + wg * 64;
                   if_(detail::issues_stores(), [&] {
                     if_(sends, [&] { exchange.wait_for_next(); });
                     if_(adds, [&] { exchange.wait(block); });
                   });
                   sync_warpgroup();
                   if_(
                       adds,
                       [&] {
                         out.take(
                             sums, row, tile.col,
                             [&](const RegisterTile<f32>& x, const PanelPlace& at) {
                               return x + of_elements(came_sums.multiples_of(8), x.layout(), at);
                             },
                             tile.owner);
                       },
                       [&] { out.take(sums, row, tile.col, nullptr, tile.owner); });
                   sent.owe(sends, block);
                 });
                 out.finish();
                 sent.pay();
               });
  return k;
}

}  // namespace

Kernel product_reduce_scatter(const RankedTile& t, Where where) {
  AtLine line(where);
  check(t);
  return t.type == DType::bf16 ? build<bf16>(t) : build<f16>(t);
}

}  // namespace ptxbuilder::kernels
