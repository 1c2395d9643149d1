// Reports races in shared memory, and accesses of the async proxy that no fence orders after those of the
// generic proxy. Accesses by threads and asynchronous operations are checked with the shadow of each CTA
// (machine/shadow.h), accesses by lanes of one warp with their marks.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "runtime/emulator/checks/checks.h"
#include "runtime/emulator/checks/lane_marks.h"

namespace ptxbuilder::runtime::emulator {
namespace {

class Races final : public Observer {
 public:
  explicit Races(const Cluster& cluster) {
    for (const auto& cta : cluster.ctas) marks_.emplace_back(cta->shared.size());
  }

  void shared_access(Warp& w, const SharedAccess& a) override {
    const Access made = w.access();
    a.each_place([&](uint32_t offset, int lane) {
      if (const auto clash = check(w, a.cta, made, offset, offset + a.bytes, a.writes)) [[unlikely]]
        settle(w, *clash, a, offset, lane);
    });
  }

  void async_access(Warp& w, const AsyncAccess& a) override {
    if (!a.writes && a.cta.shadow.read_again(a.deed, a.offset, a.bytes, w.causality.knowledge())) return;
    const uint32_t end = a.offset + a.bytes;
    for (uint32_t from = a.offset; from < end;) {
      const auto clash = check(w, a.cta, a.deed, from, end, a.writes);
      if (!clash) break;
      find(w, *clash, a.cta, a.what, -1);
      const uint32_t at = std::max(from, clash->offset);
      from = std::min(end, clash->offset + 4);
      if (a.writes) a.cta.shadow.agree(a.deed, at, from - at);
    }
    if (!a.cta.shadow.uninitialised) return;
    w.add_uninitialised(
        a.cta, w.here(),
        fmt::format("{} {}, which nothing had written", a.what, a.cta.name(*a.cta.shadow.uninitialised)), -1);
    a.cta.shadow.uninitialised.reset();
  }

  void lane_access(Warp& w, const SharedAccess& a, LaneAccess kind) override;

 private:
  static void check_lanes(const Warp& w, const SharedAccess& a, int lane, bool is_atomic, const LaneMark& m,
                          uint32_t at, uint32_t from, uint32_t to);
  static std::optional<Clash> record(Cta& cta, Access made, uint32_t begin, uint32_t end, bool writes,
                                     const Knowledge& k) {
    return writes ? cta.shadow.write(made, begin, end - begin, k)
                  : cta.shadow.read(made, begin, end - begin, k);
  }
  // Records an access to [begin, end) and returns its first real clash. A clash with an earlier access is not
  // real if all lanes that made the access have released it since; `released_since` tests that.
  std::optional<Clash> check(const Warp& w, Cta& cta, Access made, uint32_t begin, uint32_t end,
                             bool writes) {
    const auto clash = record(cta, made, begin, end, writes, w.causality.knowledge());
    if (!clash) [[likely]]
      return std::nullopt;
    return without_released(*clash, w.causality.knowledge(), cta, made, begin, end, writes);
  }
  std::optional<Clash> without_released(Clash first, const Knowledge& known, Cta& cta, Access made,
                                        uint32_t begin, uint32_t end, bool writes);
  bool released_since(const Clash& clash, const Cta& cta, const Knowledge& k);
  void settle(Warp& w, Clash clash, const SharedAccess& a, uint32_t offset, int first);
  static void find(const Warp& w, const Clash& clash, const Cta& cta, const char* what, int lane);

  std::vector<LaneMarks> marks_;  // one element per CTA
};

// Returns whether the earlier access happens before everything that a thread with knowledge `k` does next,
// although its whole warp has not synchronized with the thread. That is the case if each lane that made the
// access has released it since, itself or through a lane that it had met.
bool Races::released_since(const Clash& clash, const Cta& cta, const Knowledge& k) {
  if (clash.conflict != Conflict::unordered || k.told[clash.earlier.actor] < clash.earlier.time) return false;
  const ActorName& who = cta.cluster.actors[clash.earlier.actor];
  if (who.kind != ActorName::Kind::warp || who.cta != &cta) return true;
  const Warp& other = *cta.warps[who.index];
  const LaneMark& m = marks_[cta.rank][clash.offset];
  if (clash.earlier_wrote)
    return m.wrote == 0 || m.writer_warp != other.index || std::ranges::all_of(m.writers, [&](uint8_t lane) {
             return lane == LaneMark::nobody || other.causality.released(lane) >= m.wrote;
           });
  if (m.read == 0 || m.reader_warp != other.index) return true;
  for (Lanes rest = m.readers; rest; rest &= rest - 1)
    if (other.causality.released(static_cast<size_t>(__builtin_ctz(rest))) < m.read) return false;
  return true;
}

std::optional<Clash> Races::without_released(Clash first, const Knowledge& known, Cta& cta, Access made,
                                             uint32_t begin, uint32_t end, bool writes) {
  std::optional<Clash> clash = first;
  while (clash && released_since(*clash, cta, known)) {
    Knowledge of_word = known;  // only this word is known to be ordered after the earlier access
    const uint32_t next = std::min(end, clash->offset + 4);
    std::optional<Clash> more = clash;
    while (more && released_since(*more, cta, known)) {
      of_word.seen.raise(more->earlier.actor, more->earlier.time);
      more = record(cta, made, std::max(begin, more->offset), next, writes, of_word);
    }
    cta.shadow.forget_steps();
    if (more) return more;
    clash = next < end ? record(cta, made, next, end, writes, known) : std::nullopt;
  }
  return clash;
}

// Reports the clashes of an access of a.bytes bytes at `offset`, whose first lane is `first`. Storing a value
// that another thread has already stored is not a race, and is only noted.
void Races::settle(Warp& w, Clash clash, const SharedAccess& a, uint32_t offset, int first) {
  std::vector<std::byte> all(a.offsets ? size_t{32} * a.bytes : a.bytes);
  const bool is_known = a.values(all.data());
  const auto stored = all.begin() + (a.offsets ? first * static_cast<ptrdiff_t>(a.bytes) : 0);
  const uint32_t end = offset + a.bytes;
  const Knowledge& known = w.causality.knowledge();
  for (std::optional<Clash> more = clash; more;) {
    clash = *more;
    const uint32_t from = std::max(offset, clash.offset), to = std::min(end, clash.offset + 4);
    const int lane = a.each ? first + static_cast<int>((from - offset) / a.each) : first;
    const bool is_same =
        is_known && clash.earlier_wrote && !clash.earlier.async && clash.conflict == Conflict::unordered &&
        std::equal(stored + (from - offset), stored + (to - offset), a.cta.shared.begin() + from);
    if (is_same)
      w.note(fmt::format("this writes to {} the value that is already there, and nothing orders it after the "
                         "other write: {}",
                         a.cta.name(clash.offset), w.cluster().describe(clash.earlier, true)),
             lane);
    else
      find(w, clash, a.cta, a.writes ? "this writes" : "this reads", lane);
    if (a.writes) a.cta.shadow.agree(w.access(), from, to - from);
    more = to < end ? record(a.cta, w.access(), to, end, a.writes, known) : std::nullopt;
  }
}

void Races::find(const Warp& w, const Clash& clash, const Cta& cta, const char* what, int lane) {
  const Fault fault = clash.conflict == Conflict::unfenced ? Fault::proxy_fence : Fault::race;
  if (w.grid().reports->has_found(w.grid().kernel.name, w.here(), fault)) return;
  const Cluster& cluster = w.cluster();
  std::string where = cta.name(clash.offset);
  if (&cta != &w.cta) where += fmt::format(" of CTA {} of the cluster", cta.rank);
  std::string earlier = cluster.describe(clash.earlier, clash.earlier_wrote);
  if (fault == Fault::proxy_fence)
    return w.find(fault,
                  fmt::format("{} {} through the async proxy, but {}, and no fence.proxy.async comes between",
                              what, where, earlier),
                  lane);
  if (const ActorName& who = cluster.actors[clash.earlier.actor]; who.kind == ActorName::Kind::mbarrier)
    if (auto m = who.cta->mbarriers.find(who.index); m != who.cta->mbarriers.end())
      earlier += fmt::format(" (it is in phase {} now, {} of {} arrivals and {} B are missing)",
                             m->second->phase, m->second->pending, m->second->count, m->second->tx);
  w.find(fault, fmt::format("{} {}, but {}, and nothing orders this after that", what, where, earlier), lane);
}

bool one_writer(const LaneMark& m) {
  return std::bit_cast<uint32_t>(m.writers) == m.writers[0] * 0x01010101u;
}

// Reports accesses by other lanes of the warp to bytes [from, to) of a word if nothing orders them before
// this access.
void Races::check_lanes(const Warp& w, const SharedAccess& a, int lane, bool is_atomic, const LaneMark& m,
                        uint32_t at, uint32_t from, uint32_t to) {
  const LaneOrder& order = w.causality.lanes();
  const uint32_t pc = w.here();
  auto clash = [&](int other, const char* verb, uint32_t pc_of_other) {
    w.find(Fault::race,
           fmt::format("this {} {}, but lane {} of this warp {} it at {}, and nothing orders the two: no "
                       "bar.warp.sync (__syncwarp) or other barrier of both lanes comes between",
                       a.writes ? "writes" : "reads", a.cta.name(at), other, verb,
                       w.grid().kernel.place(pc_of_other)),
           lane);
  };
  if (m.wrote && m.writer_warp == w.index && m.wrote_pc != pc && !(is_atomic && m.atomic))
    for (uint32_t b = from; b < (one_writer(m) ? from + 1 : to); ++b)
      if (const int other = m.writers[b];
          other != LaneMark::nobody && other != lane && !order.knows(lane, other, m.wrote)) {
        clash(other, "wrote", m.wrote_pc);
        break;
      }
  if (a.writes && m.read && m.reader_warp == w.index && m.read_pc != pc)
    for (Lanes rest = m.readers & ~(Lanes{1} << lane); rest; rest &= rest - 1)
      if (const int other = __builtin_ctz(rest); !order.knows(lane, other, m.read))
        clash(other, "read", m.read_pc);
}

void Races::lane_access(Warp& w, const SharedAccess& a, LaneAccess kind) {
  const bool is_atomic = kind == LaneAccess::atomic_checked || kind == LaneAccess::atomic_recorded,
             is_checked = kind != LaneAccess::recorded && kind != LaneAccess::atomic_recorded,
             is_recorded = kind != LaneAccess::checked && kind != LaneAccess::atomic_checked;
  const LaneOrder& order = w.causality.lanes();
  const uint32_t pc = w.here(), now = order.now();
  const auto warp = static_cast<uint8_t>(w.index);
  LaneMarks& marks = marks_[a.cta.rank];
  a.each_lane([&, now, pc, warp, writes = a.writes](uint32_t offset, uint32_t end_of_lane, int lane) {
    for (uint32_t at = offset / 4 * 4; at < end_of_lane; at += 4) {
      LaneMark& m = marks[at];
      const uint32_t from = std::max(at, offset) - at, to = std::min(at + 4, end_of_lane) - at;
      const uint32_t last = writes ? std::max(m.wrote, m.read) : m.wrote;
      if (is_checked && !order.all_know(last)) [[unlikely]]
        check_lanes(w, a, lane, is_atomic, m, at, from, to);
      if (writes) {
        if (!is_recorded) continue;
        if (to - from == 4) {
          m = {now, pc, 0, 0, 0, is_atomic, warp, 0, {}};
          m.writers.fill(static_cast<uint8_t>(lane));
          continue;
        }
        // If several lanes write parts of a word with one instruction, all these lanes are recorded,
        // otherwise only the last lane.
        const bool joins = m.wrote == now && m.writer_warp == warp && m.wrote_pc == pc;
        const auto writers = m.writers;
        m = {now, pc, 0, 0, 0, is_atomic, warp, 0, {}};
        for (uint32_t b = 0; b < 4; ++b)
          m.writers[b] = b >= from && b < to ? static_cast<uint8_t>(lane)
                         : joins             ? writers[b]
                                             : LaneMark::nobody;
      } else if (to - from == 4) {  // a lane that reads only part of a word is not recorded
        if (m.read != now || m.reader_warp != warp) m.readers = 0;
        m.read = now;
        m.read_pc = pc;
        m.readers |= Lanes{1} << lane;
        m.reader_warp = warp;
      }
    }
  });
}

}  // namespace

void add_races(Observers& observers, Cluster& cluster) { observers.add(std::make_unique<Races>(cluster)); }

}  // namespace ptxbuilder::runtime::emulator
