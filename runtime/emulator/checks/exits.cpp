// Reports a CTA that exits while its copies are in flight, or after only part of a warpgroup has executed
// setmaxnreg.
#include <fmt/format.h>

#include "runtime/emulator/checks/checks.h"

namespace ptxbuilder::runtime::emulator {
namespace {

class Exits final : public Observer {
 public:
  void cta_exit(Cta& cta) override {
    const Warp& last = *cta.warps.back();
    for (const auto& [fault, pc] : cta.uninitialised) last.find(fault, pc);
    for (const auto& warp : cta.warps) {  // setmaxnreg must be executed by the whole warpgroup
      const Warp& first = *cta.warps[warp->index / 4 * 4];
      if (warp->register_share.changes == first.register_share.changes) continue;
      const bool is_more = warp->register_share.changes > first.register_share.changes;
      const Warp &more = is_more ? *warp : first, &less = is_more ? first : *warp;
      last.find(Fault::register_budget,
                fmt::format("warp {} has executed setmaxnreg {} times, but warp {} of its warpgroup {} "
                            "times: all four warps must execute each setmaxnreg",
                            more.index, more.register_share.changes, less.index, less.register_share.changes),
                -1, more.register_share.changed_at);
      break;
    }
    for (const auto& [offset, m] : cta.mbarriers)
      if (m->in_flight + m->copies_to_arrive > 0)
        last.find(
            Fault::early_exit,
            fmt::format("the CTA exits while {} copies of {} B that signal mbarrier {} still write into its "
                        "shared memory",
                        m->in_flight + m->copies_to_arrive, m->in_flight_bytes, cta.name(offset)));
    if (cta.tensor)
      for (const auto& [first, taken] : cta.tensor->allocated())
        last.find(Fault::early_exit,
                  fmt::format(
                      "the CTA exits without tcgen05.dealloc of {} columns of tensor memory that begin at {}",
                      taken.count, first),
                  -1, taken.pc);
    if (cta.touching > 0)
      last.find(Fault::early_exit,
                fmt::format("the CTA exits while {} asynchronous operations still use its shared memory",
                            cta.touching));
  }
};

}  // namespace

void add_exits(Observers& observers, Cluster&) { observers.add(std::make_unique<Exits>()); }

}  // namespace ptxbuilder::runtime::emulator
