// One CTA: its shared memory and barriers, and what must hold when it ends.
#include <fmt/format.h>

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
  // Rubbish that is the same in every run: uninitialised shared memory is not zero.
  for (size_t i = 0; i < shared.size(); ++i) shared[i] = static_cast<std::byte>(0xa5 + 7 * i);
  live_warps = (threads + 31) / 32;
  for (uint32_t i = 0; i < (live_warps + 3) / 4; ++i)
    wgmma_actors.push_back(cluster.new_actor({ActorName::Kind::wgmma, this, i}));
  for (uint32_t i = 0; i < live_warps; ++i) warps.push_back(std::make_unique<Warp>(*this, i));
}

std::string Cta::name(uint32_t offset) const {
  const Kernel& kernel = cluster.grid.kernel;
  if (!kernel.dynamic.empty()) {
    const uint64_t base = kernel.shared[kernel.dynamic[0]].offset;
    std::string text;  // of several objects that share a place
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

Mbarrier* Cta::mbarrier_near(uint32_t offset, uint32_t bytes) {
  for (uint32_t at = offset / 8 * 8; at < offset + bytes; at += 8)
    if (auto found = mbarriers.find(at); found != mbarriers.end()) return found->second.get();
  return nullptr;
}

// Barriers do not wait for threads that have exited.
void Cta::lanes_done(Warp& warp) {
  for (uint32_t id = 0; id < barriers.size(); ++id) {
    Barrier& b = barriers[id];
    if (b.arrived == 0) continue;
    Lanes& who = b.who[warp.index];
    if (who != 0) {  // the others of the warp have arrived, or do
      b.arrived += static_cast<uint32_t>(std::popcount(~who & ~warp.alive));
      who |= ~warp.alive;
    } else if (b.all && warp.alive == 0) {
      b.expected -= 32;
    }
    if (b.arrived >= b.expected) complete(id);
  }
  cluster.complete_barrier();
}

void Cta::warp_done(Warp&) {
  --live_warps;
  --cluster.live_warps;
  cluster.complete_barrier();
  cluster.changed();
  if (live_warps > 0) return;
  Warp& last = *warps.back();
  for (const auto& [fault, pc] : uninitialised) last.find(fault, pc);
  for (const auto& warp : warps) {  // setmaxnreg is one instruction of a whole warpgroup
    const Warp& first = *warps[warp->index / 4 * 4];
    if (warp->register_changes == first.register_changes) continue;
    const Warp& more = warp->register_changes > first.register_changes ? *warp : first;
    const Warp& less = &more == warp.get() ? first : *warp;
    last.find(
        Fault::register_budget,
        fmt::format("warp {} has executed setmaxnreg {} times, and warp {} of its warpgroup {} times: all "
                    "four have to execute each",
                    more.index, more.register_changes, less.index, less.register_changes),
        -1, more.register_change);
    break;
  }
  for (auto& [offset, m] : mbarriers) {
    if (m->in_flight + m->copies_to_arrive > 0)
      last.find(Fault::early_exit,
                fmt::format("the CTA exits while {} copies of {} B that signal mbarrier "
                            "{} still write into its shared memory",
                            m->in_flight + m->copies_to_arrive, m->in_flight_bytes, name(offset)));
  }
  if (touching > 0)
    last.find(
        Fault::early_exit,
        fmt::format("the CTA exits while {} asynchronous operations still use its shared memory", touching));
  for (auto& [offset, m] : mbarriers)
    if (cluster.checks && m->tx != 0)
      last.find(
          Fault::tx_count,
          fmt::format("the CTA exits with mbarrier {} in the midst of phase {}: {} B {}", name(offset),
                      m->phase, std::abs(m->tx),
                      m->tx > 0 ? "are expected and have not arrived" : "arrived and were not expected"));
  for (auto& [offset, m] : mbarriers)
    if (cluster.checks && m->phase > 0 && !m->waited)
      last.note(fmt::format("mbarrier {} completes {} phase{}, and nobody ever waits for it", name(offset),
                            m->phase, m->phase == 1 ? "" : "s"),
                -1, m->init.pc);
  for (auto& [offset, m] : mbarriers)
    if (cluster.checks && m->pending != m->count) {
      const std::string left = fmt::format(
          "the CTA exits with mbarrier {} in the midst of phase {}: initialised for {} arrivals, it "
          "has got {}",
          name(offset), m->phase, m->count, m->count - m->pending);
      // A pipeline may end so; but where more warps arrive than a phase takes, the count is likely to be
      // wrong.
      if (arriving_warps(*m) > m->count)
        last.find(Fault::arrival_count,
                  fmt::format("{}. Either the count or the arrivals of some phase are wrong{}", left,
                              about_arrivals(*m)));
      last.note(left, -1, m->init.pc);
    }
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
