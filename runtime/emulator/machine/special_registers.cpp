#include "runtime/emulator/machine/special_registers.h"

#include <algorithm>
#include <type_traits>

#include "runtime/emulator/machine/machine.h"

namespace ptxbuilder::runtime::emulator {
namespace {

uint32_t thread_of(const Warp& w, uint32_t lane) { return w.index * 32 + lane; }
uint32_t volume(Dim3 d) { return d.x * d.y * d.z; }
Dim3 split(uint32_t linear, Dim3 by) { return {linear % by.x, linear / by.x % by.y, linear / by.x / by.y}; }
Dim3 divide(Dim3 a, Dim3 b) { return {a.x / b.x, a.y / b.y, a.z / b.z}; }

Dim3 tid(const Warp& w, uint32_t lane) { return split(thread_of(w, lane), w.grid().launch.block); }
Dim3 ntid(const Warp& w, uint32_t) { return w.grid().launch.block; }
Dim3 ctaid(const Warp& w, uint32_t) { return w.cta.id; }
Dim3 nctaid(const Warp& w, uint32_t) { return w.grid().launch.grid; }
Dim3 clusterid(const Warp& w, uint32_t) { return divide(w.cta.id, w.grid().launch.cluster); }
Dim3 nclusterid(const Warp& w, uint32_t) { return divide(w.grid().launch.grid, w.grid().launch.cluster); }
Dim3 cluster_ctaid(const Warp& w, uint32_t) { return split(w.cta.rank, w.grid().launch.cluster); }
Dim3 cluster_nctaid(const Warp& w, uint32_t) { return w.grid().launch.cluster; }

template <Dim3 (*of)(const Warp&, uint32_t), uint32_t Dim3::*axis>
uint64_t part(const Warp& w, uint32_t lane) {
  return of(w, lane).*axis;
}

Lanes below(uint32_t lane) { return (Lanes{1} << lane) - 1; }
Lanes up_to(uint32_t lane) { return below(lane) | Lanes{1} << lane; }

uint64_t zero(const Warp&, uint32_t) { return 0; }
uint64_t all_shared(const Warp& w, uint32_t) { return w.cta.shared.size(); }
uint64_t reserved_end(const Warp&, uint32_t) { return shared_reserved; }

constexpr SpecialRegister registers[] = {
    {"%tid.x", part<tid, &Dim3::x>, true},
    {"%tid.y", part<tid, &Dim3::y>, true},
    {"%tid.z", part<tid, &Dim3::z>, true},
    {"%ntid.x", part<ntid, &Dim3::x>},
    {"%ntid.y", part<ntid, &Dim3::y>},
    {"%ntid.z", part<ntid, &Dim3::z>},
    {"%ctaid.x", part<ctaid, &Dim3::x>},
    {"%ctaid.y", part<ctaid, &Dim3::y>},
    {"%ctaid.z", part<ctaid, &Dim3::z>},
    {"%nctaid.x", part<nctaid, &Dim3::x>},
    {"%nctaid.y", part<nctaid, &Dim3::y>},
    {"%nctaid.z", part<nctaid, &Dim3::z>},
    {"%clusterid.x", part<clusterid, &Dim3::x>},
    {"%clusterid.y", part<clusterid, &Dim3::y>},
    {"%clusterid.z", part<clusterid, &Dim3::z>},
    {"%nclusterid.x", part<nclusterid, &Dim3::x>},
    {"%nclusterid.y", part<nclusterid, &Dim3::y>},
    {"%nclusterid.z", part<nclusterid, &Dim3::z>},
    {"%cluster_ctaid.x", part<cluster_ctaid, &Dim3::x>},
    {"%cluster_ctaid.y", part<cluster_ctaid, &Dim3::y>},
    {"%cluster_ctaid.z", part<cluster_ctaid, &Dim3::z>},
    {"%cluster_nctaid.x", part<cluster_nctaid, &Dim3::x>},
    {"%cluster_nctaid.y", part<cluster_nctaid, &Dim3::y>},
    {"%cluster_nctaid.z", part<cluster_nctaid, &Dim3::z>},
    {"%cluster_ctarank", [](const Warp& w, uint32_t) -> uint64_t { return w.cta.rank; }},
    {"%cluster_nctarank",
     [](const Warp& w, uint32_t) -> uint64_t { return volume(w.grid().launch.cluster); }},
    {"%is_explicit_cluster", [](const Warp& w, uint32_t) -> uint64_t { return w.grid().has_clusters(); }},
    {"%laneid", [](const Warp&, uint32_t lane) -> uint64_t { return lane; }, true},
    {"%warpid", [](const Warp& w, uint32_t) -> uint64_t { return w.index; }},
    {"%nwarpid", [](const Warp& w, uint32_t) -> uint64_t { return (w.cta.threads + 31) / 32; }},
    {"%smid",
     [](const Warp& w, uint32_t) -> uint64_t {
       return (w.cluster().index * w.cluster().ctas.size() + w.cta.rank) % hopper::multiprocessors;
     }},
    {"%nsmid", [](const Warp&, uint32_t) -> uint64_t { return hopper::multiprocessors; }},
    {"%gridid", [](const Warp& w, uint32_t) -> uint64_t { return w.grid().id; }},
    {"%lanemask_eq", [](const Warp&, uint32_t lane) -> uint64_t { return Lanes{1} << lane; }, true},
    {"%lanemask_lt", [](const Warp&, uint32_t lane) -> uint64_t { return below(lane); }, true},
    {"%lanemask_le", [](const Warp&, uint32_t lane) -> uint64_t { return up_to(lane); }, true},
    {"%lanemask_ge", [](const Warp&, uint32_t lane) -> uint64_t { return Lanes{~below(lane)}; }, true},
    {"%lanemask_gt", [](const Warp&, uint32_t lane) -> uint64_t { return Lanes{~up_to(lane)}; }, true},
    {"%dynamic_smem_size",
     [](const Warp& w, uint32_t) -> uint64_t { return w.grid().launch.dynamic_shared_bytes; }},
    {"%total_smem_size", all_shared},
    {"%aggr_smem_size", all_shared},
    {"%reserved_smem_offset_begin", zero},
    {"%reserved_smem_offset_end", reserved_end},
    {"%reserved_smem_offset_cap", reserved_end},
    {"%reserved_smem_offset_0", zero},
    // The part of shared memory that is reserved for libraries, such as cooperative groups.
    {"%reserved_smem_offset_1", [](const Warp&, uint32_t) -> uint64_t { return shared_reserved / 2; }},
    // Cooperative groups use these registers to find the memory through which a grid synchronizes.
    {"%envreg1", [](const Warp& w, uint32_t) -> uint64_t { return w.grid().workspace >> 32; }},
    {"%envreg2", [](const Warp& w, uint32_t) -> uint64_t { return w.grid().workspace; }}};

// Returns whether a register has no meaning for an emulated launch. Such a register is one that the driver
// may set freely, a profiler's counter, or a register that describes the graph of a launch that is not in a
// graph.
bool is_of_no_launch(std::string_view name) {
  auto is_number = [](std::string_view digits, int least_not) {
    int n = 0;
    for (char c : digits) {
      if (c < '0' || c > '9' || digits.size() > 2) return false;
      n = 10 * n + (c - '0');
    }
    return !digits.empty() && n < least_not;
  };
  if (name.starts_with("%envreg")) return is_number(name.substr(7), 32);
  if (name.starts_with("%pm")) {
    name.remove_prefix(3);
    if (name.ends_with("_64")) name.remove_suffix(3);
    return is_number(name, 8);
  }
  return name == "%current_graph_exec";
}

}  // namespace

const SpecialRegister* special_register(std::string_view name) {
  static constexpr SpecialRegister none{"", zero};
  const auto* at = std::ranges::find(registers, name, &SpecialRegister::name);
  if (at != std::end(registers)) return at;
  return is_of_no_launch(name) ? &none : nullptr;
}

void Warp::fill_special_registers() {
  auto fill = [&](const SpecialRegister& special, auto* to) {
    using T = std::remove_pointer_t<decltype(to)>;
    std::fill_n(to, 32, static_cast<T>(special.value(*this, 0)));
    for (uint32_t lane = 1; special.is_of_lane && lane < 32; ++lane)
      to[lane] = static_cast<T>(special.value(*this, lane));
  };
  for (const auto& [special, at_register, bytes] : grid().kernel.specials) {
    if (bytes == 0) {
      Lanes mask = 0;
      for (uint32_t lane = 0; lane < 32; ++lane)
        mask |= static_cast<Lanes>(special->value(*this, lane) != 0) << lane;
      *at<uint32_t>(at_register) = mask;
    } else if (bytes == 2) {
      fill(*special, at<uint16_t>(at_register));
    } else if (bytes == 4) {
      fill(*special, at<uint32_t>(at_register));
    } else {
      fill(*special, at<uint64_t>(at_register));
    }
  }
}

}  // namespace ptxbuilder::runtime::emulator
