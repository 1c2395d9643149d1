// Reports violations of the rules for mbarriers: an init must be published before others use the object, a
// waiter must not miss a phase, and some thread must wait for each completed phase (PTX ISA, "Parallel
// Synchronization and Communication Instructions: mbarrier").
#include <fmt/format.h>

#include <algorithm>

#include "runtime/emulator/checks/checks.h"

namespace ptxbuilder::runtime::emulator {
namespace {

class MbarrierRules final : public Observer {
 public:
  void mbarrier_use(Warp& w, const Mbarrier& m, int lane, SignalledBy by) override {
    const Knowledge& known = w.causality.knowledge();
    const bool seen = known.seen[m.init.actor] >= m.init.time,
               published = known.inits[m.init.actor] >= m.init.time,
               fenced = known.fenced[m.init.actor] >= m.init.time;
    const uint32_t init = w.grid().kernel.lines[m.init.pc].ptx;
    if (!seen && !published)
      w.find(Fault::mbarrier_init,
             fmt::format("mbarrier {} is used, but nothing orders this after its init at line {}: no barrier "
                         "comes between",
                         name_for(w, m), init),
             lane);
    // This is only a note, because libcu++'s memcpy_async omits the fence if a CTA copies to itself, and
    // Triton omits it for tensor copies.
    if (by == SignalledBy::copy && m.cta == &w.cta && !published && !fenced)
      w.note(fmt::format("a copy will signal mbarrier {}, but no fence.mbarrier_init or fence.proxy.async "
                         "follows its init at line {}",
                         name_for(w, m), init),
             lane);
    // The release of barrier.cluster.arrive orders the init before accesses by other threads, but not before
    // copies.
    if (m.cta != &w.cta && !published && !fenced && (by == SignalledBy::copy || !seen))
      w.find(Fault::mbarrier_init,
             fmt::format("mbarrier {} is used by another CTA of the cluster, but no fence.mbarrier_init "
                         "follows its init at line {}",
                         name_for(w, m), init),
             lane);
  }

  void mbarrier_arrival(Warp& w, const Mbarrier& m, int lane) override {
    if (&w.cta == m.cta) known_phase(w, m, lane) = m.phase;
  }

  // Records a wait, and reports a wait for a phase that its parity no longer identifies. A wait by parity is
  // for the first phase that the thread does not know to be complete, or for the phase before that one.
  void mbarrier_wait(Warp& w, const Mbarrier& m, const MbarrierWait& wait) override {
    Seen& seen = seen_of(m);
    seen.waited = true;
    seen.observed |= wait.is_complete;
    if (!wait.by_parity || &w.cta != m.cta) return;
    uint32_t& last = known_phase(w, m, wait.lane);
    const uint32_t known = std::max(last, w.causality.knowledge().seen[m.actor]);
    if ((known & 1) == wait.parity && m.phase >= known + 2)
      w.find(Fault::phase_skipped,
             fmt::format("mbarrier {} has completed phases {} to {} before this thread waits for phase {}: "
                         "parity {} no longer tells them apart{}",
                         name_for(w, m), known, m.phase - 1, known, wait.parity, about_arrivals(m)),
             wait.lane);
    if (wait.is_complete) last = m.phase;
  }

  void phase_completion(Warp& w, const Mbarrier& m) override {
    Seen& seen = seen_of(m);
    if (!seen.observed && m.phase > 0)
      w.note(fmt::format("phases {} and {} of mbarrier {} complete, and nobody has waited for the first",
                         m.phase - 1, m.phase, name_for(w, m)),
             -1, m.init.pc);
    seen.observed = false;
  }

  void cta_exit(Cta& cta) override {
    const Warp& last = *cta.warps.back();
    for (const auto& [offset, m] : cta.mbarriers)
      if (m->tx != 0)
        last.find(
            Fault::tx_count,
            fmt::format("the CTA exits with mbarrier {} in the middle of phase {}: {} B {}", cta.name(offset),
                        m->phase, std::abs(m->tx),
                        m->tx > 0 ? "are expected and have not arrived" : "arrived and were not expected"));
    for (const auto& [offset, m] : cta.mbarriers)
      if (m->phase > 0 && !seen_of(*m).waited)
        last.note(fmt::format("mbarrier {} completes {} phase{}, and nobody ever waits for it",
                              cta.name(offset), m->phase, m->phase == 1 ? "" : "s"),
                  -1, m->init.pc);
    for (const auto& [offset, m] : cta.mbarriers)
      if (m->pending != m->count) {
        const std::string left = fmt::format(
            "the CTA exits with mbarrier {} in the middle of phase {}: it was initialised for {} arrivals, "
            "but got {}",
            cta.name(offset), m->phase, m->count, m->count - m->pending);
        // A pipeline may end in the middle of a phase. But if more warps arrive than a phase needs, the count
        // is probably wrong.
        if (arriving_warps(*m) > m->count)
          last.find(Fault::arrival_count,
                    fmt::format("{}. Either the count or the arrivals of some phase are wrong{}", left,
                                about_arrivals(*m)));
        last.note(left, -1, m->init.pc);
      }
  }

 private:
  struct Seen {
    bool observed = true;         // whether a wait has observed the last completed phase
    bool waited = false;          // whether any thread has ever waited for a phase
    std::vector<uint32_t> known;  // for each thread of the mbarrier's CTA, the latest phase in which the
                                  // thread has arrived or waited
  };

  Seen& seen_of(const Mbarrier& m) {
    if (m.actor >= seen_.size()) seen_.resize(m.actor + 1);
    return seen_[m.actor];
  }
  uint32_t& known_phase(const Warp& w, const Mbarrier& m, int lane) {
    Seen& seen = seen_of(m);
    seen.known.resize(m.cta->warps.size() * 32);
    return seen.known[w.index * 32 + static_cast<uint32_t>(lane)];
  }

  std::vector<Seen> seen_;  // indexed by the mbarrier's actor
};

}  // namespace

void add_mbarriers(Observers& observers, Cluster&) { observers.add(std::make_unique<MbarrierRules>()); }

}  // namespace ptxbuilder::runtime::emulator
