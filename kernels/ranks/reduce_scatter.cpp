#include "kernels/ranks/reduce_scatter.h"

#include "kernels/ranks/mainloop.h"
#include "kernels/ranks/operands.h"
#include "ptxbuilder/product/collective.h"
#include "ptxbuilder/product/epilogue.h"
#include "ptxbuilder/tile/commit.h"
#include "ptxbuilder/tile/named_barrier.h"

namespace ptxbuilder::kernels {
namespace {

// A warpgroup's sums on their way to the next rank: they are stored during the next tile's products, and
// their signal is delayed until they have arrived there, before the next sums.
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
Kernel build(const RankedTile& t, Where where) {
  Kernel k("product_reduce_scatter");
  k.cluster(static_cast<uint32_t>(t.cluster));
  k.cooperative();
  const RankedParameters p(
      k, t, {{"A"}, {"B"}, {"sums", Parameter::Kind::pointer, t.d_type}, {"next_sums"}, {"D"}}, where);
  auto sA = k.shared(t.type, {t.bm, t.bk()}, Swizzle128B, t.stages);
  auto sB = k.shared(t.type, ranked_b_tile(t), Swizzle128B, t.stages);
  Pipeline pipe(k, t.stages, {sA, sB}, t.consumers(), Producers::cluster);
  const Exchange exchange = p.exchange();
  const u32 all = p.number("rows"), self = p.number("rank");
  const RankedOrder order(t, self, all, p.number("N"), -1);
  const u32 depth = ceil_div(p.number("K"), t.bk());

  k.warpgroups(1, 40, [&](u32) {
    name_role("producer");
    elect([&] {
      auto ring = pipe.producer();
      exchange.open();
      order.each([&](const RankedPlace& tile) {
        producer_loop(ring, 0, depth, [&](const Stage& s, u32 kt) {
          tma_load(sA[s], p.get<TensorMap>("A"), kt * t.bk(), tile.row, tile.owner);
          load_ranked_b(t, sB[s], p.get<TensorMap>("B"), kt, tile.col);
        });
      });
      exchange.left();
    });
  });
  k.warpgroups(t.consumers(), 232, [&](u32 wg) {
    name_role("consumer");
    auto ring = pipe.consumer();
    Accumulator sums(64, t.bn);
    const auto place = [&](u32 owner) {
      const pred is_own = owner == self;
      return std::pair(
          choose(select(is_own, u32(1), u32(0)), {p.get<TensorMap>("next_sums"), p.get<TensorMap>("D")}),
          select(is_own, u32(0), owner));
    };
    DeferredStore out(t.d_type, p.get<TensorMap>("next_sums"), {64, t.bn},
                      {.batch = u32(0), .place_of_batch = place});
    const GlobalTensor<T, 3> came_sums(p.get<gptr<T>>("sums"),
                                       {u32(static_cast<uint32_t>(t.ranks)), all, p.number("N")});
    SumsSent sent(exchange);
    const Epilogue scaled = scaled_by(t, p);
    order.each([&](const RankedPlace& tile) {
      ranked_mainloop(
          sums, ring, depth,
          [&](const Stage& s) { return std::pair(sA[s].rows(wg * 64, 64), ranked_b_operand(t, sB[s])); },
          out);
      sent.pay();
      const u32 block = (tile.block * order.columns() + tile.col / t.bn) * t.consumers() + wg;
      const pred adds = (tile.phase > 0) & tile.is_inside, sends = (tile.owner != self) & tile.is_inside;
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
                  return (scaled ? scaled(x, at) : x) +
                         of_elements(came_sums.multiples_of(8), x.layout(), at);
                },
                tile.owner);
          },
          [&] { out.take(sums, row, tile.col, scaled, tile.owner); });
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
  if (t.keeps) throw Error("a product and reduce-scatter that keeps rows; they come to an all-gather alone");
  return t.d_type == DType::bf16 ? build<bf16>(t, where) : build<f16>(t, where);
}

}  // namespace ptxbuilder::kernels
