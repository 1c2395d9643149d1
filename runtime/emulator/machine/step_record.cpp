#include "runtime/emulator/machine/step_record.h"

#include <algorithm>
#include <cstring>

#include "runtime/emulator/machine/machine.h"

namespace ptxbuilder::runtime::emulator {
namespace {

constexpr uint64_t of_shared = uint64_t{1} << 63, of_groups = of_shared | uint64_t{1} << 62,
                   of_counts = of_shared | uint64_t{1} << 61, of_phases = of_shared | uint64_t{1} << 60;

uint64_t number(const Cta& cta) { return cta.cluster.index * cta.cluster.ctas.size() + cta.rank; }

class Recorder final : public Observer {
 public:
  explicit Recorder(StepRecord& record) : record_(record) {}

  void shared_access(Warp&, const SharedAccess& a) override {
    a.each_place([&](uint32_t offset, int) {
      record_.add_shared(number(a.cta), offset, a.bytes, a.writes);
      if (a.writes) record_.watch(a.cta.shared.data() + offset, a.bytes);
    });
  }
  void async_access(Warp&, const AsyncAccess& a) override {
    if (a.bytes) record_.add_shared(number(a.cta), a.offset, a.bytes, a.writes);
  }
  void global_access(Warp& w, const Allocation& allocation, const GlobalAccess& a) override {
    if (allocation.read_only) return;
    record_.add_global(a.address, a.bytes, a.writes);
    if (a.writes && w.weak()) record_.add_sequential(false);
    if (a.updates)
      record_.watch(allocation.bytes.get() + (a.address - allocation.address), a.bytes);
    else if (a.writes)
      record_.stores = true;
  }
  // A warp that waits for a phase does not observe an mbarrier's counts before they complete the phase.
  void mbarrier_use(Warp&, const Mbarrier& m, int, SignalledBy) override {
    if (record_.is_wait) return;
    record_.footprint.add(of_counts | place(m), true);
    record_.stores = true;
  }
  void mbarrier_wait(Warp&, const Mbarrier& m, const MbarrierWait&) override {
    record_.footprint.add(of_phases | place(m), false);
  }
  void phase_completion(Warp&, const Mbarrier& m) override {
    record_.footprint.add(of_phases | place(m), true);
  }

 private:
  static uint64_t place(const Mbarrier& m) { return number(*m.cta) << 24 | m.offset / 8; }

  StepRecord& record_;
};

}  // namespace

void StepRecord::add_global(Address address, uint32_t bytes, bool writes) {
  for (uint64_t at = address / 16; at <= (address + bytes - 1) / 16; ++at) footprint.add(at, writes);
}

void StepRecord::add_shared(uint64_t cta, uint32_t offset, uint32_t bytes, bool writes) {
  for (uint32_t at = offset / 16; at <= (offset + bytes - 1) / 16; ++at)
    footprint.add(of_shared | cta << 24 | at, writes);
}

void StepRecord::add_groups(const Warp& warp, bool writes) {
  footprint.add(of_groups | number(warp.cta) << 8 | warp.index, writes);
}

void StepRecord::watch(const std::byte* place, uint32_t bytes) {
  watched_.push_back({place, {place, place + bytes}});
}

bool StepRecord::changes() const {
  return stores || std::ranges::any_of(watched_, [](const Watched& w) {
           return std::memcmp(w.place, w.before.data(), w.before.size()) != 0;
         });
}

void StepRecord::clear() {
  footprint.clear();
  stores = reads_older = false;
  watched_.clear();
}

void add_step_record(Cluster& cluster, StepRecord& record) {
  cluster.observers.add(std::make_unique<Recorder>(record));
}

}  // namespace ptxbuilder::runtime::emulator
