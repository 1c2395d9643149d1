#include "kernels/ranks/all_gather.h"

#include "kernels/ranks/mainloop.h"
#include "kernels/ranks/row_copies.h"
#include "ptxbuilder/product/collective.h"

namespace ptxbuilder::kernels {

Kernel all_gather_product(const RankedTile& t, Where where) {
  AtLine line(where);
  check(t);
  Kernel k("all_gather_product");
  k.cluster(static_cast<uint32_t>(t.cluster));
  k.cooperative();
  const RankedParameters p(k, t, {{"A"}, {"own_rows", Parameter::Kind::pointer}, {"gathered"}, {"B"}, {"D"}},
                           where);
  auto sA = k.shared(t.type, {t.bm, t.bk()}, Swizzle128B, t.stages);
  auto sB = k.shared(t.type, ranked_b_tile(t), Swizzle128B, t.stages);
  Pipeline pipe(k, t.stages, {sA, sB}, t.consumers(), Producers::cluster);
  const Exchange exchange = p.exchange();
  const RankedOrder order(t, p.number("rank"), p.number("rows"), p.number("N"), 0);
  CopiedRows rows{gmem(p.get<gptr<u32>>("own_rows")), p.number("K"), t.type};
  if (t.keeps) rows.kept = gmem(p.get<gptr<u32>>("kept"));
  const RowCopies copies(k, t, p, exchange, order, rows);
  const u32 depth = ceil_div(p.number("K"), t.bk());

  k.warpgroups(1, t.producer_registers(), [&](u32) {
    name_role("producer");
    elect([&] {
      auto ring = pipe.producer();
      exchange.open();
      order.each([&](const RankedPlace& tile) {
        const pred is_own = tile.phase == 0;
        if_((!is_own) & tile.is_inside, [&] { copies.wait(tile.block, tile.row); });
        const TensorMap from = choose(tile.phase, {p.get<TensorMap>("A"), p.get<TensorMap>("gathered")});
        const u32 owner = select(is_own, u32(0), tile.owner);
        producer_loop(ring, 0, depth, [&](const Stage& s, u32 kt) {
          tma_load(sA[s], from, kt * t.bk(), tile.row, owner);
          load_ranked_b(t, sB[s], p.get<TensorMap>("B"), kt, tile.col);
        });
      });
      copies.left();
    });
    copies.run();
  });
  k.warpgroups(t.consumers(), t.consumer_registers(), [&](u32 wg) {
    name_role("consumer");
    auto ring = pipe.consumer();
    Accumulator sums(64, t.bn);
    DeferredStore out(t.d_type, p.get<TensorMap>("D"), {64, t.bn}, {.buffers = 1, .batch = u32(0)});
    const Epilogue scaled = scaled_by(t, p);
    order.each([&](const RankedPlace& tile) {
      ranked_mainloop(
          sums, ring, depth, [&](const Stage& s) { return ranked_operands(t, sA, sB, s, wg); }, out);
      out.take(sums, tile.row + wg * 64, tile.col, scaled, tile.owner);
    });
    out.finish();
  });
  return k;
}

}  // namespace ptxbuilder::kernels
