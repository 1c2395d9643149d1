#include "ptxbuilder/product/cluster_sum.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptxbuilder/tile/multicast.h"

namespace ptxbuilder {
namespace {

constexpr int kGroupColumns = 8;                // number of columns in a warpgroup's access to 64 rows
constexpr int kVector = 4;                      // number of elements in a thread's access
constexpr int kGroupBytes = 128 * kVector * 4;  // size of a warpgroup's access, in thread order

int ctas_of(Kernel& kernel, ClusterAxis axis, int n, Where where) {
  AtLine line(where);
  const auto [x, y, z] = kernel.signature().cluster;
  const auto along = static_cast<size_t>(axis);
  const uint32_t ctas = std::array{x, y, z}[along];
  if (ctas < 2)
    throw Error(
        fmt::format("cluster sum: the cluster has {} x {} x {} CTAs, but must have at least 2 along {}", x, y,
                    z, "xyz"[along]));
  if (n % kGroupColumns != 0)
    throw Error(fmt::format("cluster sum: the number of columns is {}, but must be a multiple of {}", n,
                            kGroupColumns));
  return static_cast<int>(ctas);
}

}  // namespace

ClusterSum::ClusterSum(Kernel& kernel, int m, int n, int consumers, ClusterAxis axis, Where where)
    : m_(m),
      n_(n),
      consumers_(consumers),
      axis_(axis),
      ctas_(ctas_of(kernel, axis, n, where)),
      role_(kernel.named_barrier(128 * consumers, where)),
      written_(kernel, {4 * consumers * ctas_}, {"partial sums"}, where) {
  detail::TileContext::of(kernel.builder()).meet_at_end = true;
}

uint32_t ClusterSum::scratch_bytes() const { return static_cast<uint32_t>(m_ * n_ * consumers_) * 4; }

int ClusterSum::columns() const {
  const int groups = n_ / kGroupColumns;
  return (groups + ctas_ - 1) / ctas_ * kGroupColumns;
}

u32 ClusterSum::first_column(Where where) const {
  AtLine line(where);
  const u32 first = detail::place_in_cluster()[static_cast<size_t>(axis_)] * columns();
  return n_ % columns() == 0 && n_ / columns() == ctas_ ? first : min(first, u32(n_ - columns()));
}

// Returns the cluster rank of the CTA at position `place` in the line.
u32 ClusterSum::rank_of(u32 place) const { return detail::rank_in_line(axis_, place); }

RegisterTile<f32> ClusterSum::add(const Accumulator& acc, smem scratch, Where where) const {
  AtLine line(where);
  if (acc.m() != m_ || acc.n() != n_ || acc.dtype() != DType::f32)
    throw Error(fmt::format("cluster sum: the accumulator is {} x {} {}, but {} x {} f32 was declared",
                            acc.m(), acc.n(), name(acc.dtype()), m_, n_));
  const int groups = n_ / kGroupColumns,
            blocks = m_ / 64;  // each thread holds kVector elements in 8 columns of a block
  u32 thread = tid_x() & 127, group = detail::warpgroup_in_cta() - detail::first_warpgroup_of_role();
  smem mine = scratch + group * (blocks * groups * kGroupBytes) + thread * (kVector * 4);
  auto at = [&](int block, u32 i) { return mine + (i + block * groups) * kGroupBytes; };

  role_.sync();  // after this, the wgmmas of all warpgroups have read the memory
  for (int block = 0; block < blocks; ++block)
    for (int i = 0; i < groups; ++i) {
      const RegisterTile<f32> part = load<f32>(acc, {64 * block, kGroupColumns * i, 64, kGroupColumns});
      ptxbuilder::store(sptr<f32>(at(block, i)),
                        std::array<f32, kVector>{part.value(0), part.value(1), part.value(2), part.value(3)});
    }
  bar_warp_sync(0xffffffff);
  u32 lane = laneid(), ctas = ctas_;
  mbarrier_arrive_release_cluster.when(lane < ctas)(mapa(written_[0], rank_of(lane % ctas)));
  barrier_wait_cluster(written_[0], 0);

  const int share = columns() / kGroupColumns;
  const u32 first = first_column() / kGroupColumns;
  detail::TileValues all{DType::f32, wgmma_layout(m_, columns()), {}};
  for (int block = 0; block < blocks; ++block)
    for (int i = 0; i < share; ++i) {
      std::vector<f32> sum;
      for (int cta = 0; cta < ctas_; ++cta) {
        auto [a, b, c, d] = ld_shared_cluster_v4_f32(mapa(at(block, first + i), rank_of(u32(cta))));
        const std::array<f32, kVector> part = {a, b, c, d};
        for (size_t e = 0; e < part.size(); ++e) {
          if (cta == 0)
            sum.push_back(part[e]);
          else
            sum[e] = sum[e] + part[e];
        }
      }
      all.words.insert(all.words.end(), sum.begin(), sum.end());
    }
  return RegisterTile<f32>(std::move(all));
}

}  // namespace ptxbuilder
