#include "kernels/ranks/all_gather.h"

#include "kernels/ranks/exchange.h"
#include "kernels/ranks/mainloop.h"
#include "ptxbuilder/tile/tma.h"

namespace ptxbuilder::kernels {
namespace {

// The rows that the producer loads for the first column of tiles go on to the next rank, some stages behind
// the loads. Their signal waits until they have come there, under the next tile's loads.
class RowsSent {
 public:
  RowsSent(const Pipeline& pipe, int stages, const Exchange& exchange)
      : stages_(stages), exchange_(exchange), sender_(pipe.sender()), owed_(kNothing) {}

  int lag() const { return stages_ / 2; }
  void begin(pred sends) {
    if_(sends, [&] { exchange_.wait_for_next(); });
  }
  // Stands ahead of acquire(): what was sent from the stage has been read.
  void before_load(pred sends) {
    if_(sends, [&] { cp_async_bulk_wait_group_read(stages_ - 1 - lag()); });
  }
  void after_load(pred sends, u32 kt, u32 depth, const std::function<void(const Stage&, u32 kt)>& send) {
    if_(kt == min(u32(static_cast<uint32_t>(lag())), depth - 1), [&] { pay(); });
    if_(sends & (kt >= lag()), [&] { send_one(kt - lag(), send); });
  }
  void end(pred sends, u32 depth, u32 block, const std::function<void(const Stage&, u32 kt)>& send) {
    if_(
        sends,
        [&] {
          const u32 behind = static_cast<uint32_t>(lag());
          for_(max(depth, behind) - behind, depth, [&](u32 kt) { send_one(kt, send); });
          cp_async_bulk_wait_group_read(0);
          owed_ = block;
        },
        [&] { sender_.skip(depth); });
  }
  void pay() {
    if_(owed_.value() != kNothing, [&] {
      cp_async_bulk_wait_group(0);
      exchange_.signal(owed_);
      owed_ = u32(kNothing);
    });
  }

 private:
  static constexpr uint32_t kNothing = ~0u;

  void send_one(u32 kt, const std::function<void(const Stage&, u32 kt)>& send) {
    send(sender_.wait(), kt);
    cp_async_bulk_commit_group();
  }

  int stages_;
  const Exchange& exchange_;
  Sender sender_;
  Var<u32> owed_;  // the block whose signal is to come
};

}  // namespace

Kernel all_gather_product(const RankedTile& t, Where where) {
  AtLine line(where);
  check(t);
  Kernel k("all_gather_product");
  k.cluster(static_cast<uint32_t>(t.cluster));
  k.cooperative();
  auto [A, gathered, next_gathered, B, D, own, next, previous, rows, N, K, rank] =
      k.params<TensorMap, TensorMap, TensorMap, TensorMap, TensorMap, gptr<u32>, gptr<u32>, gptr<u32>, u32,
               u32, u32, u32>("A", "gathered", "next_gathered", "B", "D", "words", "next_words",
                              "previous_words", "rows", "N", "K", "rank");
  auto sA = k.shared(t.type, {t.bm, t.bk}, Swizzle128B, t.stages);
  auto sB = k.shared(t.type, {t.bn, t.bk}, Swizzle128B, t.stages);
  Pipeline pipe(k, t.stages, {sA, sB}, t.consumers(), Producers::cluster);
  const Exchange exchange(own, next, previous);
  const RankedOrder order(t, rank, rows, N, 0);
  const u32 depth = ceil_div(K, t.bk);

  k.warpgroups(1, 40, [&, own_rows = A, others = gathered, to = next_gathered, b = B](u32) {
    name_role("producer");
    elect([&] {
      auto ring = pipe.producer();
      RowsSent sent(pipe, t.stages, exchange);
      exchange.open();
      order.each([&](const RankedPlace& tile) {
        const pred is_own = tile.phase == 0;
        if_((!is_own) & tile.is_inside, [&] {
          sent.pay();  // or each rank would wait for what the other owes it
          exchange.wait(tile.block);
          fence_proxy_async<Space::global>();  // copies store what copies load
        });
        const pred sends = (tile.col == 0) & (tile.phase < t.ranks - 1) & tile.is_inside;
        const TensorMap from = choose(tile.phase, {own_rows, others});
        const u32 owner = select(is_own, u32(0), tile.owner);
        const auto send = [&](const Stage& s, u32 kt) {
          tma_store(to, sA[s], kt * t.bk, tile.row, tile.owner);
        };
        sent.begin(sends);
        for_(0, depth, [&](u32 kt) {
          sent.before_load(sends);
          const Stage s = region("wait", [&] { return ring.acquire(); });
          region("load", [&] {
            tma_load(sA[s], from, kt * t.bk, tile.row, owner);
            tma_load(sB[s].multicast(ClusterAxis::x), b, kt * t.bk, tile.col);
          });
          sent.after_load(sends, kt, depth, send);
        });
        sent.end(sends, depth, tile.block, send);
      });
      sent.pay();
      exchange.left();
    });
  });
  k.warpgroups(t.consumers(), 232, [&, d = D](u32 wg) {
    name_role("consumer");
    auto ring = pipe.consumer();
    Accumulator sums(64, t.bn);
    DeferredStore out(t.type, d, {64, t.bn}, {.batch = u32(0)});
    order.each([&](const RankedPlace& tile) {
      ranked_mainloop(
          sums, ring, depth, [&](const Stage& s) { return std::pair(sA[s].rows(wg * 64, 64), sB[s]); }, out);
      out.take(sums, tile.row + wg * 64, tile.col, nullptr, tile.owner);
    });
    out.finish();
  });
  return k;
}

}  // namespace ptxbuilder::kernels
