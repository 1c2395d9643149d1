// Reports races in global memory: between the CTAs of a launch, the warps of a CTA and the lanes of a warp,
// and with the previous launch if the two may overlap. Also reports copies through the async proxy that read
// data written by threads without a fence.proxy.async in between.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/emulator/checks/checks.h"
#include "runtime/emulator/checks/lane_log.h"
#include "runtime/emulator/machine/global_shadow.h"

namespace ptxbuilder::runtime::emulator {
namespace {

class GlobalRaces final : public Observer {
 public:
  explicit GlobalRaces(const Cluster& cluster) : cluster_(cluster), shadow_(*cluster.grid.shadow) {}

  void global_access(Warp& w, const Allocation& allocation, const GlobalAccess& a) override {
    if (allocation.read_only) return;
    const GlobalDeed deed(actor_of(a.deed.actor), a.deed.time, w.grid().kernel.lines[a.deed.pc].ptx,
                          a.deed.async, a.is_strong, a.scope);
    const Party me = w.party();
    auto standing = [&](const GlobalDeed& earlier, bool wrote) {
      return this->standing(w.causality.knowledge(), me, deed, earlier, wrote);
    };
    std::vector<std::byte> stored;  // empty if the stored values are not known
    bool meets_own = false;
    const Address end = a.address + a.bytes;
    for (Address from = a.address; from < end;) {
      const Address page_end = (from / GlobalShadow::page_bytes + 1) * GlobalShadow::page_bytes;
      const Address piece_end = std::min(end, page_end);
      const std::unique_lock lock = shadow_.lock(from);
      if (a.updates) require_written(w, allocation, a, from, piece_end);
      if (a.writes) allocation.note_written(from - allocation.address, piece_end - from);
      while (from < piece_end) {
        const auto clash = shadow_.access(from, static_cast<uint32_t>(piece_end - from), deed, a.writes,
                                          standing, meets_own);
        if (clash && stored.empty()) {
          stored.resize(a.bytes);
          if (!a.values(stored.data())) stored.clear();
        }
        if (clash) report(w, allocation, a, *clash, stored);
        from = clash ? clash->address + 4 : piece_end;
      }
    }
    if (a.lane >= 0 && a.deed.actor == w.causality.actor()) log_lanes(w, allocation, a, meets_own);
    if (a.writes && a.deed.async)
      if (std::vector<std::byte> stored(a.bytes); a.values(stored.data()))
        shadow_.keep(deed, a.address, std::move(stored));
  }

  void global_stored(Actor actor, uint32_t time) override {
    if (actor < actors_.size() && actors_[actor]) shadow_.forget(*actors_[actor], time);
  }

 private:
  // Returns the device-wide actor for an actor of this cluster.
  const GlobalActor* actor_of(Actor local) {
    if (local >= actors_.size()) actors_.resize(std::max<size_t>(local + 1, cluster_.actors.size()));
    if (!actors_[local]) {
      const ActorName& name = cluster_.actors[local];
      const Cta& cta = *name.cta;
      using Kind = GlobalActor::Kind;
      const Kind kind = name.kind == ActorName::Kind::warp   ? Kind::warp
                        : name.kind == ActorName::Kind::copy ? Kind::cp_async
                                                             : Kind::copy;
      const Grid& grid = cluster_.grid;
      actors_[local] = shadow_.add({grid.id, grid.device, cluster_.number(), cluster_.number_of(cta), local,
                                    kind, name.index, cta.id, !grid.is_alone});
    }
    return actors_[local];
  }

  Standing standing(const Knowledge& k, const Party& me, const GlobalDeed& deed, const GlobalDeed& earlier,
                    bool wrote) const {
    const GlobalActor& by = *earlier.actor;
    if (is_prior(by))
      return !cluster_.grid.may_overlap || k.seen[prior_launch] > 0 ? Standing::over : Standing::unordered;
    const bool is_near = by.cluster == me.cluster;
    if (deed.is_strong() && earlier.is_strong() && reaches(deed.scope(), by, me) &&
        reaches(earlier.scope(), by, me))
      return Standing::over;
    const GlobalKnowledge::Remote* remote = nullptr;
    if (!is_near && k.global)
      if (const auto at = k.global->others.find(by.cluster); at != k.global->others.end())
        remote = at->second.get();
    const bool seen = is_near ? k.seen[by.local] >= earlier.time || k.told[by.local] >= earlier.time
                              : remote && remote->seen[by.local] >= earlier.time;
    if (!seen) return Standing::unordered;
    if (!wrote || earlier.is_async() || !deed.is_async()) return Standing::over;
    const Clock* fenced = is_near ? (k.global ? &k.global->fenced : nullptr) : &remote->fenced;
    return fenced && (*fenced)[by.local] >= earlier.time ? Standing::over : Standing::unfenced;
  }

  // Returns whether `by` belongs to an earlier launch on the same device.
  bool is_prior(const GlobalActor& by) const {
    return by.launch != cluster_.grid.id && by.device == cluster_.grid.device;
  }

  static bool reaches(Scope scope, const GlobalActor& by, const Party& me) {
    return scope == Scope::sys || by.cta == me.cta || (scope >= Scope::cluster && by.cluster == me.cluster) ||
           (scope == Scope::gpu && by.device == me.device);
  }

  // The lanes of a warp are checked like any other threads: their accesses are ordered only if the lanes have
  // met or synchronized.
  void log_lanes(const Warp& w, const Allocation& allocation, const GlobalAccess& a, bool meets_own) {
    if (a.deed.actor >= lanes_.size()) lanes_.resize(a.deed.actor + 1);
    LaneLog& log = lanes_[a.deed.actor];
    if (meets_own) look_for_lanes(w, allocation, a, log);
    log.add(w.causality.lanes(), logged(w, a));
  }

  static LoggedAccess logged(const Warp& w, const GlobalAccess& a) {
    return {a.address,
            a.bytes,
            a.each,
            w.causality.lanes().now(),
            w.here(),
            static_cast<uint8_t>(a.lane),
            static_cast<uint8_t>(a.count),
            a.writes,
            a.is_strong};
  }

  static void look_for_lanes(const Warp& w, const Allocation& allocation, const GlobalAccess& a,
                             const LaneLog& log) {
    const LoggedAccess now = logged(w, a);
    log.each_conflict(w.causality.lanes(), now, [&](const LoggedAccess& earlier) {
      return reports_lanes(w, allocation, a, now, earlier);
    });
  }

  static bool reports_lanes(const Warp& w, const Allocation& allocation, const GlobalAccess& a,
                            const LoggedAccess& now, const LoggedAccess& earlier) {
    const bool have_own_bytes = now.address == earlier.address && now.each == earlier.each &&
                                now.lane == earlier.lane && (now.each || now.count + earlier.count == 2);
    if (have_own_bytes) return false;
    const LaneOrder& order = w.causality.lanes();
    std::vector<std::byte> stored;
    const Address from = std::max(now.address, earlier.address),
                  to = std::min(now.address + now.bytes, earlier.address + earlier.bytes);
    for (Address at = from; at < to; ++at)
      for (int lane = now.first_lane(at); lane <= now.last_lane(at); ++lane)
        for (int other = earlier.first_lane(at); other <= earlier.last_lane(at); ++other) {
          if (lane == other || order.knows(lane, other, earlier.stamp)) continue;
          if (a.writes && earlier.writes) {  // writing the value that is already there is not a race
            if (stored.empty()) {
              stored.resize(a.bytes);
              if (!a.values(stored.data())) stored.clear();
            }
            if (!stored.empty() && stored[at - a.address] == allocation.bytes.get()[at - allocation.address])
              continue;
          }
          w.find(Fault::race,
                 fmt::format("{} {}, but lane {} of this warp {} it {}, and nothing orders the two: no "
                             "bar.warp.sync (__syncwarp) or other barrier of both lanes comes between",
                             a.what, allocation.name_of(at - allocation.address), other,
                             earlier.writes ? "wrote" : "read",
                             earlier.pc == now.pc ? std::string("by the same instruction")
                                                  : "at " + w.grid().kernel.place(earlier.pc)),
                 lane);
          return true;
        }
    return false;
  }

  // Reports an addition to newly allocated memory that nothing has written. Such memory is undefined, so the
  // program must zero it before it adds to it.
  static void require_written(const Warp& w, const Allocation& allocation, const GlobalAccess& a,
                              Address from, Address end) {
    if (const auto offset = allocation.first_unwritten(from - allocation.address, end - from))
      w.find(Fault::uninitialised_sum,
             fmt::format("{} {}, which nothing had written", a.what, allocation.name_of(*offset)), a.lane);
  }

  void report(const Warp& w, const Allocation& allocation, const GlobalAccess& a, const GlobalClash& clash,
              const std::vector<std::byte>& stored) const {
    const Fault fault = clash.standing == Standing::unfenced ? Fault::proxy_fence : Fault::race;
    if (w.grid().reports->has_found(w.grid().kernel.name, w.here(), fault)) return;
    const std::string where = allocation.name_of(clash.address - allocation.address);
    const Address first = std::max(a.address, clash.address);
    const int lane = a.each ? a.lane + static_cast<int>((first - a.address) / a.each) : a.lane;
    const GlobalActor& by = *clash.earlier.actor;
    const bool is_prior = this->is_prior(by), is_own = by.launch == cluster_.grid.id;
    const std::vector<SourceLine>& lines = w.grid().kernel.lines;
    const auto pc =
        std::ranges::find_if(
            lines, [&](const SourceLine& line) { return line.ptx % (1u << 24) == clash.earlier.line(); }) -
        lines.begin();
    std::string earlier = fmt::format("{} {} it at {}", by.name(), clash.earlier_wrote ? "wrote" : "read",
                                      is_own ? w.grid().kernel.place(static_cast<uint32_t>(pc))
                                             : fmt::format("line {}", clash.earlier.line()));
    if (is_prior) earlier += " of the previous launch, which may still be running";
    if (fault == Fault::proxy_fence)
      return w.find(fault,
                    fmt::format("{} {} through the async proxy, but {}, and no fence.proxy.async of global "
                                "memory comes between",
                                a.what, where, earlier),
                    lane);
    // Storing a value that is already there is not a race, so it is only noted.
    if (!stored.empty() && clash.earlier_wrote && !is_prior && is_the_same(allocation, a, clash, stored))
      return w.note(
          fmt::format(
              "{} {} the value that is already there, and nothing orders it after the other write: {}",
              a.what, where, earlier),
          lane);
    w.find(fault,
           fmt::format("{} {}, but {}, and {}", a.what, where, earlier,
                       is_prior ? "no griddepcontrol.wait comes before this"
                       : by.device == cluster_.grid.device
                           ? "nothing orders this after that"
                           : "nothing orders this after that: it takes a release and an acquire, or fences, "
                             "of the scope .sys"),
           lane);
  }

  // Returns true if the store writes the value that the word already holds, or will hold once an earlier copy
  // is done.
  bool is_the_same(const Allocation& allocation, const GlobalAccess& a, const GlobalClash& clash,
                   const std::vector<std::byte>& stored) const {
    const Address from = std::max(a.address, clash.address),
                  to = std::min(a.address + a.bytes, clash.address + 4);
    for (Address at = from; at < to; ++at) {
      const std::byte there =
          shadow_.kept(clash.earlier, at).value_or(allocation.bytes.get()[at - allocation.address]);
      if (stored[at - a.address] != there) return false;
    }
    return true;
  }

  const Cluster& cluster_;
  GlobalShadow& shadow_;
  std::vector<const GlobalActor*> actors_;  // indexed by the cluster's actor; null if unused so far
  std::vector<LaneLog> lanes_;              // indexed by the cluster's actor
};

}  // namespace

void add_global_races(Observers& observers, Cluster& cluster) {
  observers.add(std::make_unique<GlobalRaces>(cluster));
}

}  // namespace ptxbuilder::runtime::emulator
