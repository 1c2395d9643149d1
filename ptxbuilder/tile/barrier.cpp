#include "ptxbuilder/tile/barrier.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptxbuilder/ir/instruction.h"
#include "ptxbuilder/tile/multicast.h"
#include "ptxbuilder/tile/watchdog.h"

namespace ptxbuilder {
namespace {

using detail::TileContext;

constexpr int kBits = 32;  // number of bits in the register that holds the parities

void check_arrivals(const std::vector<int>& arrivals, Where where) {
  AtLine line(where);
  for (int n : arrivals)
    if (n < 1 || n >= 1 << 20)
      throw Error(where,
                  fmt::format("barriers: {} arrivals were given, but the number must be 1 to 2^20 - 1", n));
}

// Returns the number of warps in a role or, in a kernel without roles, in the CTA.
int warps_of(Builder& builder, int role) {
  if (role < 0) return static_cast<int>(builder.signature().threads + 31) / 32;
  return 4 * TileContext::of(builder).roles[static_cast<size_t>(role)].count;
}

}  // namespace

Barriers::Barriers(Kernel& kernel, const std::vector<int>& arrivals, const std::vector<std::string>& names,
                   Where where)
    : Barriers((check_arrivals(arrivals, where), kernel), static_cast<int>(arrivals.size()), names, false,
               [&](const Barriers& made) {
                 AtLine line(where);
                 for (int i = 0; i < made.size(); ++i)
                   mbarrier_init(made[i], arrivals[static_cast<size_t>(i)]);
               },
               where) {}

Barriers::Barriers(Kernel& kernel, int count, const std::vector<std::string>& names, bool of_cluster,
                   const std::function<void(const Barriers&)>& initialize, Where where)
    : count_(count), of_cluster_(of_cluster) {
  AtLine line(where);
  Builder& builder = kernel.builder();
  builder.check_current();
  if (count < 1) throw Error("barriers: there must be at least one");
  if (TileContext::of(builder).unions > 0)
    throw Error("barriers: a barrier cannot share its memory, so make it outside of shared_union");
  const int share = names.empty() ? 0 : count_ / static_cast<int>(names.size());
  if (names.empty() || share * static_cast<int>(names.size()) != count_)
    throw Error(
        fmt::format("barriers: {} names for {} barriers; each name must be for an equal share of them",
                    names.size(), count_));
  for (size_t i = 0; i < names.size(); ++i) {
    const uint32_t offset = builder.allocate_shared(names[i], 8, share, 8);
    if (i == 0) offset_ = offset;
  }
  if_(tid_x() == 0, [&] {
    initialize(*this);
    fence_mbarrier_init();
    fence_proxy_async<Space::shared>();  // TMA completes barriers through the async proxy
  });
  TileContext& context = TileContext::of(builder);
  context.unpublished_barriers = true;
  context.barrier_where = Where::here();
}

smem Barriers::operator[](u32 index) const {
  if (auto known = Builder::current().constant(index); known && known->value >= static_cast<uint64_t>(count_))
    throw Error(known->where,
                fmt::format("barriers: barrier {} was requested, but there are {}", known->value, count_));
  return Builder::current().shared_base() + (index * 8 + offset_);
}

void barrier_wait(smem barrier, u32 parity, Where where) {
  AtLine line(where);
  detail::wait_while({.barrier = barrier,
                      .expected = parity,
                      .has_to_wait = [&] { return !mbarrier_test_wait_parity(barrier, parity); }},
                     [&] { return !mbarrier_try_wait_parity(barrier, parity); });
}

void barrier_wait_cluster(smem barrier, u32 parity, Where where) {
  AtLine line(where);
  detail::wait_while({.barrier = barrier,
                      .expected = parity,
                      .has_to_wait =
                          [&] {
                            return !instruction<"mbarrier.test_wait.parity.acquire.cluster.shared::cta.b64">(
                                barrier, parity);
                          }},
                     [&] { return !mbarrier_try_wait_parity_acquire_cluster(barrier, parity); });
}

Phases::Phases(const Barriers& barriers, FirstWait first, Where where)
    : barriers_(barriers), parities_(u32(first == FirstWait::passes ? ~0u : 0u, where), where) {
  AtLine line(where);
  if (barriers.size() > kBits)
    throw Error(where, fmt::format("phases: there are {} barriers, but the register of parities has {} bits",
                                   barriers.size(), kBits));
}

u32 Phases::parity(u32 index, Where where) const {
  AtLine line(where);
  return parities_.value() >> index & 1;
}

void Phases::skip(u32 index, Where where) {
  AtLine line(where);
  parities_ = parities_.value() ^ u32(1) << index;
}

void Phases::wait(u32 index, Where where) {
  AtLine line(where);
  smem barrier = barriers_[index];
  u32 parity = this->parity(index);
  barriers_.of_cluster() ? barrier_wait_cluster(barrier, parity) : barrier_wait(barrier, parity);
  skip(index);
}

struct ClusterBarriers::Arrivals {
  std::vector<int> roles;  // roles that call arrive(); -1 stands for a kernel without roles
  Builder::Place place;    // place at which the barriers are initialised
};

ClusterBarriers::ClusterBarriers(Kernel& kernel, int count, ClusterAxes axes, const std::string& name,
                                 Where where)
    : ClusterBarriers(kernel, count, axes, name, std::make_shared<Arrivals>(), where) {}

ClusterBarriers::ClusterBarriers(Kernel& kernel, int count, ClusterAxes axes, const std::string& name,
                                 std::shared_ptr<Arrivals> arrivals, Where where)
    : Barriers(
          kernel, count, {name}, true,
          [&](const Barriers&) { arrivals->place = kernel.builder().remember_place(); }, where),
      axes_(axes),
      ctas_in_line_(detail::ctas_in_line(axes)),
      arrivals_(arrivals) {
  AtLine line(where);
  if (axes.empty()) throw Error("cluster barriers: no axis was given; give x, y, z or some of them");
  detail::cluster_size(kernel.builder());  // the cluster's size must not change after this call
  const int in_line = ctas_in_line_;
  if (in_line > 1) TileContext::of(kernel.builder()).meet_at_end = true;

  kernel.builder().on_finish([made = static_cast<const Barriers&>(*this), arrivals, in_line, where] {
    AtLine line(where);
    Builder& builder = Builder::current();
    int each = 0;
    for (int role : arrivals->roles) each += warps_of(builder, role);
    if (each == 0) throw Error("cluster barriers: nobody arrives at them, so a wait would never end");
    builder.emit_at(arrivals->place, [&] {
      for (int i = 0; i < made.size(); ++i) mbarrier_init(made[i], each * in_line);
    });
  });
}

void ClusterBarriers::arrive(u32 index, Where where) {
  AtLine line(where);
  const int role = TileContext::of(Builder::current()).role, peers = ctas_in_line_;
  std::vector<int>& roles = arrivals_->roles;
  if (std::find(roles.begin(), roles.end(), role) == roles.end()) roles.push_back(role);
  bar_warp_sync(0xffffffff);  // orders the other lanes' accesses before the arrivals
  smem barrier = (*this)[index];
  u32 lane = laneid();
  if (peers == 1)
    mbarrier_arrive.when(lane == 0)(barrier);
  else  // lane i arrives at the i-th CTA
    mbarrier_arrive_release_cluster.when(lane <
                                         peers)(mapa(barrier, detail::rank_in_line(axes_, lane % peers)));
}

}  // namespace ptxbuilder
