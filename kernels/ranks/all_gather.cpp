#include "kernels/ranks/all_gather.h"

#include "kernels/ranks/mainloop.h"
#include "kernels/ranks/operands.h"

namespace ptxbuilder::kernels {
namespace {

// The rows that the producer loads for the first column of tiles are sent to the next rank some stages after
// their loads. Their signal is delayed until they have arrived there, during the next tile's loads.
class RowsSent {
 public:
  RowsSent(const Pipeline& pipe, int stages, const Exchange& exchange)
      : stages_(stages), exchange_(exchange), sender_(pipe.sender()), owed_(kNothing) {}

  int lag() const { return stages_ / 2; }
  void begin(pred sends) {
    if_(sends, [&] { exchange_.wait_for_next(); });
  }
  // Call this before acquire(): what was stored from the stage has been read. `moves` says whether rows are
  // stored, either to the next rank or to be kept.
  void before_load(pred moves) {
    if_(moves, [&] { cp_async_bulk_wait_group_read(stages_ - 1 - lag()); });
  }
  void after_load(pred moves, u32 kt, u32 depth, const std::function<void(const Stage&, u32 kt)>& send) {
    if_(kt == min(u32(static_cast<uint32_t>(lag())), depth - 1), [&] { pay(); });
    if_(moves & (kt >= lag()), [&] { send_one(kt - lag(), send); });
  }
  void end(pred moves, pred sends, u32 depth, u32 block,
           const std::function<void(const Stage&, u32 kt)>& send) {
    if_(
        moves,
        [&] {
          const u32 behind = static_cast<uint32_t>(lag());
          for_(max(depth, behind) - behind, depth, [&](u32 kt) { send_one(kt, send); });
          cp_async_bulk_wait_group_read(0);
          owed_ = select(sends, block, u32(kNothing));
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
  Var<u32> owed_;  // the block that must still be signalled
};

}  // namespace

Kernel all_gather_product(const RankedTile& t, Where where) {
  AtLine line(where);
  check(t);
  Kernel k("all_gather_product");
  k.cluster(static_cast<uint32_t>(t.cluster));
  k.cooperative();
  const RankedParameters p(k, t, {{"A"}, {"gathered"}, {"next_gathered"}, {"B"}, {"D"}}, where);
  auto sA = k.shared(t.type, {t.bm, t.bk()}, Swizzle128B, t.stages);
  auto sB = k.shared(t.type, ranked_b_tile(t), Swizzle128B, t.stages);
  Pipeline pipe(k, t.stages, {sA, sB}, t.consumers(), Producers::cluster);
  const Exchange exchange = p.exchange();
  const RankedOrder order(t, p.number("rank"), p.number("rows"), p.number("N"), 0);
  const u32 depth = ceil_div(p.number("K"), t.bk());

  k.warpgroups(1, 40, [&](u32) {
    name_role("producer");
    const auto map = [&](const char* name) { return p.get<TensorMap>(name); };
    elect([&] {
      auto ring = pipe.producer();
      RowsSent sent(pipe, t.stages, exchange);
      exchange.open();
      order.each([&](const RankedPlace& tile) {
        const pred is_own = tile.phase == 0;
        if_((!is_own) & tile.is_inside, [&] {
          sent.pay();  // otherwise each rank would wait for what the other owes it
          exchange.wait(tile.block);
          fence_proxy_async<Space::global>();  // copies store what copies load
        });
        const pred moves =
                       (tile.col == 0) & tile.is_inside & (t.keeps ? pred(true) : tile.phase < t.ranks - 1),
                   sends = t.keeps ? moves & (tile.phase < t.ranks - 1) : moves;
        const TensorMap from = choose(tile.phase, {map("A"), map("gathered")});
        const u32 owner = select(is_own, u32(0), tile.owner);
        const auto send = [&](const Stage& s, u32 kt) {
          const auto store_to = [&](const char* name) {
            tma_store(map(name), sA[s], kt * t.bk(), tile.row, tile.owner);
          };
          if (!t.keeps) return store_to("next_gathered");
          if_(sends, [&] { store_to("next_gathered"); });
          store_to("kept");
        };
        sent.begin(sends);
        for_(0, depth, [&](u32 kt) {
          sent.before_load(moves);
          const Stage s = region("wait", [&] { return ring.acquire(); });
          region("load", [&] {
            tma_load(sA[s], from, kt * t.bk(), tile.row, owner);
            load_ranked_b(t, sB[s], map("B"), kt, tile.col);
          });
          sent.after_load(moves, kt, depth, send);
        });
        sent.end(moves, sends, depth, tile.block, send);
      });
      sent.pay();
      exchange.left();
    });
  });
  k.warpgroups(t.consumers(), 232, [&](u32 wg) {
    name_role("consumer");
    auto ring = pipe.consumer();
    Accumulator sums(64, t.bn);
    DeferredStore out(t.d_type, p.get<TensorMap>("D"), {64, t.bn}, {.batch = u32(0)});
    const Epilogue scaled = scaled_by(t, p);
    order.each([&](const RankedPlace& tile) {
      ranked_mainloop(
          sums, ring, depth,
          [&](const Stage& s) { return std::pair(sA[s].rows(wg * 64, 64), ranked_b_operand(t, sB[s])); },
          out);
      out.take(sums, tile.row + wg * 64, tile.col, scaled, tile.owner);
    });
    out.finish();
  });
  return k;
}

}  // namespace ptxbuilder::kernels
