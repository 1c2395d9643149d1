#include "kernels/ranks/reduce_scatter.h"

#include "kernels/ranks/mainloop.h"
#include "kernels/ranks/row_copies.h"
#include "ptxbuilder/product/collective.h"
#include "ptxbuilder/product/epilogue.h"
#include "ptxbuilder/tile/commit.h"
#include "ptxbuilder/tile/named_barrier.h"

namespace ptxbuilder::kernels {
namespace {

// The outstanding signal of a warpgroup for sums that are being stored in the memory of another rank, or in
// D. The sums are stored during the products of the next tile, and signalled some steps later, when they have
// arrived.
class SumsSent {
 public:
  explicit SumsSent(const Exchange& exchange) : exchange_(exchange), owed_(u32(Exchange::kNoSignal)) {}

  void owe(u32 signal) { owed_ = signal; }
  void pay() {
    if_((owed_.value() != Exchange::kNoSignal) & detail::issues_stores(), [&] {
      cp_async_bulk_wait_group(0);
      exchange_.signal(owed_);
    });
    owed_ = u32(Exchange::kNoSignal);
  }

 private:
  const Exchange& exchange_;
  Var<u32> owed_;
};

template <class T>
Kernel build(const RankedTile& t, Where where) {
  Kernel k(t.to_all ? "product_all_reduce" : "product_reduce_scatter");
  k.cluster(static_cast<uint32_t>(t.cluster));
  k.cooperative();
  const RankedParameters p(
      k, t, {{"A"}, {"B"}, {"sums", Parameter::Kind::pointer, t.d_type}, {"next_sums"}, {"D"}}, where);
  auto sA = k.shared(t.type, {t.bm, t.bk()}, Swizzle128B, t.stages);
  auto sB = k.shared(t.type, ranked_b_tile(t), Swizzle128B, t.stages);
  Pipeline pipe(k, t.stages, {sA, sB}, t.consumers(), Producers::cluster);
  const Exchange exchange = p.exchange();
  const auto ranks = static_cast<uint32_t>(t.ranks);
  const u32 rows = p.number("rows"), self = p.number("rank"), next = (self + 1) % ranks;
  std::optional<u32> all_rows;
  if (t.to_all) all_rows = p.number("M");
  const RankedOrder order(t, self, rows, p.number("N"), -1, all_rows);
  const u32 depth = ceil_div(p.number("K"), t.bk());
  // Returns the row and the batch of a tile in tensors with the rows of all ranks. The ranks are batches or,
  // in an all-reduce, consecutive rows of one matrix. In the latter case, a tile outside the product is moved
  // beyond all rows, since it would otherwise be among the rows of another rank.
  const auto place_of = [&](const RankedPlace& tile) -> std::pair<u32, u32> {
    if (!all_rows) return {tile.row, tile.owner};
    return {select(tile.is_inside, tile.owner * rows + tile.row, *all_rows), u32(0)};
  };
  const u32 signals_of_block = order.columns() * t.consumers();
  std::optional<RowCopies> copies;
  if (t.to_all) {
    const auto D = gmem(p.get<gptr<T>>("D_rows"));
    const u64 own = u64(self * rows) * (u64(p.number("N")) * static_cast<uint64_t>(size_of(t.d_type)));
    copies.emplace(k, t, p, exchange, order,
                   CopiedRows{D + own, p.number("N"), t.d_type, D, all_rows,
                              CopiedRows::Computed{signals_of_block,
                                                   order.blocks_of_rank() * ranks * signals_of_block}});
  }

  k.warpgroups(1, t.producer_registers(), [&](u32) {
    name_role("producer");
    elect([&] {
      auto ring = pipe.producer();
      exchange.open();
      order.each([&](const RankedPlace& tile) {
        producer_loop(ring, 0, depth, [&](const Stage& s, u32 kt) {
          const auto [row, batch] = place_of(tile);
          tma_load(sA[s], p.get<TensorMap>("A"), kt * t.bk(), row, batch);
          load_ranked_b(t, sB[s], p.get<TensorMap>("B"), kt, tile.col);
        });
      });
      copies ? copies->left() : exchange.left();
    });
    if (copies) copies->run();
  });
  k.warpgroups(t.consumers(), t.consumer_registers(), [&](u32 wg) {
    name_role("consumer");
    auto ring = pipe.consumer();
    Accumulator sums(64, t.bn);
    const auto place = [&](u32 owner) {
      const pred is_own = owner == self;
      return std::pair(
          choose(select(is_own, u32(1), u32(0)), {p.get<TensorMap>("next_sums"), p.get<TensorMap>("D")}),
          t.to_all ? u32(0) : select(is_own, u32(0), owner));
    };
    DeferredStore out(t.d_type, p.get<TensorMap>("next_sums"), {64, t.bn},
                      {.buffers = t.to_all ? 1 : 2, .batch = u32(0), .place_of_batch = place});
    const GlobalTensor<T, 3> came_sums(
        p.get<gptr<T>>("sums"), {t.to_all ? u32(1) : u32(ranks), t.to_all ? *all_rows : rows, p.number("N")});
    SumsSent sent(exchange);
    const Epilogue scaled = scaled_by(t, p);
    order.each([&](const RankedPlace& tile) {
      ranked_mainloop(
          sums, ring, depth, [&](const Stage& s) { return ranked_operands(t, sA, sB, s, wg); }, out,
          [&] { sent.pay(); });
      const u32 block = (tile.block * order.columns() + tile.col / t.bn) * t.consumers() + wg;
      const pred adds = (tile.phase > 0) & tile.is_inside, sends = (tile.owner != self) & tile.is_inside;
      const auto [first_row, batch] = place_of(tile);
      const u32 row = first_row + wg * 64;
      if_(detail::issues_stores(), [&] {
        if_(sends, [&] { exchange.wait_until_free(next); });
        if_(adds, [&] { exchange.take(block); });
      });
      sync_warpgroup();
      if_(
          adds,
          [&, batch = batch] {
            out.take(
                sums, row, tile.col,
                [&](const RegisterTile<f32>& x, PanelPlace at) {
                  at.batch = batch;
                  return (scaled ? scaled(x, at) : x) +
                         of_elements(came_sums.multiples_of(8), x.layout(), at);
                },
                tile.owner);
          },
          [&] { out.take(sums, row, tile.col, scaled, tile.owner); });
      u32 signal = select(sends, Exchange::signal_of(next, block), u32(Exchange::kNoSignal));
      if (copies)
        signal =
            select((tile.owner == self) & tile.is_inside, copies->signal_of_computed(tile.block), signal);
      sent.owe(signal);
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
  if (t.keeps) throw Error("a sum over ranks cannot keep rows; only an all-gather receives them");
  return t.d_type == DType::bf16 ? build<bf16>(t, where) : build<f16>(t, where);
}

}  // namespace ptxbuilder::kernels
