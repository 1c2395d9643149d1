// add_exchange: l + r for blocks of 128 x 128 f16. One CTA of a cluster loads l, and the other loads r. Each
// stores half of its rows in the other CTA, and adds the rows that it receives to its own.
#include "kernels/steps/block.h"

namespace ptxbuilder::kernels {
namespace {

constexpr int kCtas = 2, kRows = kBlock.rows / kCtas;

Kernel add_exchange() {
  Kernel k("add_exchange");
  auto [L, R, Out] = k.params<TensorMap, TensorMap, TensorMap>("L", "R", "Out");
  k.grid(std::to_string(kCtas));
  describe_addition(k, "L", "R", "Out");
  k.cluster(kCtas);
  auto sOwn = k.shared<f16>({kBlock.rows, kBlock.cols}, Swizzle128B);
  auto sOther = k.shared<f16>({kRows, kBlock.cols}, Swizzle128B);
  Barriers loaded(k, {1}, {"loaded"}), arrived(k, {1}, {"arrived"});
  u32 rank = cluster_ctarank(), other = rank ^ 1;
  elect([&] { mbarrier_arrive_expect_tx(arrived[0], static_cast<uint32_t>(sOther.stage_bytes())); });
  sync_cluster();  // the other CTA's stores will complete a barrier of this CTA

  elect([&, L = L, R = R] {
    const LoadView own = sOwn[0].expecting(loaded[0]);
    if_(
        rank == 0, [&] { tma_load(own, L, 0, 0); }, [&] { tma_load(own, R, 0, 0); });
  });
  barrier_wait(loaded[0], 0);
  store_async(sOther[0], load<f16>(sOwn[0].rows(other * kRows, kRows)), PeerCta{ClusterAxis::x, other},
              arrived[0]);
  barrier_wait_cluster(arrived[0], 0);
  store(sOther[0], load<f16>(sOwn[0].rows(rank * kRows, kRows)) + load<f16>(sOther[0]));
  store_out(Out, sOther[0], 0, rank * kRows);
  return k;
}

const command::Registration registration({
    .name = "add_exchange",
    .summary = "l + r of two CTAs that store rows to each other's shared memory",
    .fields = {},
    .build = [](const command::Fields&) { return add_exchange(); },
    .run = [](const command::Fields&,
              command::Run& run) { check_addition(run, true, kBlock.rows, kBlock.rows); },
});

}  // namespace
}  // namespace ptxbuilder::kernels
