#include <fmt/format.h>

#include <bit>

#include "runtime/emulator/machine/machine.h"

namespace ptxbuilder::runtime::emulator {

Cta::Cta(Cluster& the_cluster, uint32_t the_rank, Dim3 the_id)
    : cluster(the_cluster),
      rank(the_rank),
      id(the_id),
      shared(the_cluster.grid.kernel.shared_bytes + the_cluster.grid.launch.dynamic_shared_bytes),
      shadow(the_cluster.histories, static_cast<uint32_t>(shared.size())) {
  const Grid& grid = cluster.grid;
  threads = grid.launch.block.x * grid.launch.block.y * grid.launch.block.z;
  // Shared memory is uninitialised, so it is filled with nonzero bytes, which are the same in every run.
  uint8_t garbage = 0xa5;
  for (std::byte& one : shared) one = std::byte{garbage}, garbage += 7;
  live_warps = (threads + 31) / 32;
  for (uint32_t i = 0; i < (live_warps + 3) / 4; ++i)
    wgmma_actors.push_back(cluster.new_actor({ActorName::Kind::wgmma, this, i}));
  for (uint32_t i = 0; i < live_warps; ++i) warps.push_back(std::make_unique<Warp>(*this, i));
}

Cta::~Cta() = default;

std::string Cta::name(uint32_t offset) const {
  const Kernel& kernel = cluster.grid.kernel;
  if (!kernel.dynamic.empty()) {
    const uint64_t base = kernel.shared[kernel.dynamic[0]].offset;
    std::string text;  // names of the objects at this offset, if several share memory
    for (const SharedObject& o : cluster.grid.shared) {
      const uint64_t at = offset - base - o.offset;
      if (offset < base + o.offset || at >= uint64_t{o.bytes} * o.stages) continue;
      if (!text.empty()) text += " or ";
      text += o.stages > 1 ? fmt::format("{}[{}]", o.name, at / o.bytes) : o.name;
      if (at % o.bytes) text += fmt::format("+{}", at % o.bytes);
    }
    if (!text.empty()) return text;
  }
  const Variable* best = nullptr;
  for (const Variable& v : kernel.shared)
    if (v.offset <= offset && (!best || v.offset >= best->offset) &&
        (v.bytes == 0 || offset - v.offset < v.bytes))
      best = &v;
  if (!best) return fmt::format("shared address {:#x}", offset);
  return offset == best->offset ? best->name : fmt::format("{}+{}", best->name, offset - best->offset);
}

Mbarrier* Cta::mbarrier_near(uint32_t offset, uint32_t bytes) const {
  for (uint32_t at = offset / 8 * 8; at < offset + bytes; at += 8)
    if (auto found = mbarriers.find(at); found != mbarriers.end()) return found->second.get();
  return nullptr;
}

// Counts exited lanes as arrived, because barriers do not wait for them.
void Cta::lanes_done(Warp& warp) {
  for (uint32_t id = 0; id < barriers.size(); ++id) {
    Barrier& b = barriers[id];
    if (b.arrived == 0) continue;
    Lanes& who = b.who[warp.index];
    if (who != 0) {  // the other lanes of the warp have arrived or will arrive
      b.arrived += static_cast<uint32_t>(std::popcount(~who & ~warp.alive));
      who |= ~warp.alive;
    } else if (b.all && warp.alive == 0) {
      b.expected -= 32;
    }
    if (b.arrived >= b.expected) complete(id);
  }
  cluster.complete_barrier();
}

void Cta::warp_done() {
  --live_warps;
  --cluster.live_warps;
  cluster.complete_barrier();
  cluster.changed();
  if (live_warps > 0) return;
  for (Observer* o : cluster.observers.cta_exit) o->cta_exit(*this);
}

std::string name_for(const Warp& w, const Mbarrier& m) {
  if (m.cta == &w.cta) return m.cta->name(m.offset);
  return fmt::format("{} of CTA {}", m.cta->name(m.offset), m.cta->rank);
}

uint32_t arriving_warps(const Mbarrier& m) {
  int all = 0;
  for (uint32_t of_cta : m.warps) all += std::popcount(of_cta);
  return static_cast<uint32_t>(all);
}

std::string about_arrivals(const Mbarrier& m) {
  const uint32_t warps = arriving_warps(m);
  std::string text;
  if (warps > m.count)
    text = fmt::format("; {} warps arrive at it, which is right only where they take phases in turn", warps);
  if ((warps > m.count || m.pending > 0) && m.cta->name(m.offset).starts_with("empty["))
    text +=
        "; a Pipeline's stage expects 4 arrivals for each of the pipeline's `consumers`, the warpgroups that "
        "release it";
  return text;
}

}  // namespace ptxbuilder::runtime::emulator
