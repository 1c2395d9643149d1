#include "runtime/emulator/machine/explored_launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "runtime/emulator/machine/step_record.h"
#include "runtime/interrupt.h"

namespace ptxbuilder::runtime::emulator {

// A process is either a fragment of a warp, identified by its first lane, or an asynchronous operation. A
// step of a fragment is one instruction that other processes may observe, followed by all instructions that
// they cannot observe.
class ExploredLaunch {
 public:
  ExploredLaunch(const Grid& grid, std::chrono::steady_clock::time_point deadline)
      : grid_(grid), exploration_(*grid.options.exploration), deadline_(deadline) {
    for (const std::string& text : grid.kernel.texts) kinds_.push_back(kind_of(text));
    if (grid.weak)
      grid.weak->choose_by(
          [this](std::span<const uint64_t> stores, bool loads) { return choose(stores, loads); });
  }

  void run(EmulatorStatistics& statistics) {
    exploration_.begin_launch();
    const Dim3 c = grid_.launch.cluster;
    const uint64_t all = grid_.clusters(),
                   most = std::max(1u, uint32_t{hopper::multiprocessors} / (c.x * c.y * c.z));
    uint64_t next = 0;
    std::vector<uint64_t> processes;
    for (;;) {
      std::erase_if(resident_, [&](const auto& cluster) {
        if (cluster->live_warps > 0 || !cluster->events.empty() || !cluster->delayed_.empty()) return false;
        cluster->count_in(statistics);
        return true;
      });
      while (resident_.size() < most && next < all) {
        resident_.push_back(std::make_unique<Cluster>(grid_, next++));
        add_step_record(*resident_.back(), record_);
      }
      if (resident_.empty()) return;
      check_deadline();
      list_moves();
      if (moves_.empty()) {
        unblock();
        continue;
      }
      processes.clear();
      for (const Move& move : moves_) processes.push_back(move.process);
      make(moves_[exploration_.pick(processes)]);
    }
  }

 private:
  struct Move {
    uint64_t process;
    Cluster* cluster;
    Warp* warp;    // null for an asynchronous operation
    size_t which;  // index of the fragment or event
  };
  // No other process observes an instruction of kind `quiet`. `wait` is a wait for a phase, `awaits` waits
  // for groups of the same warp, and `wide` may access anything.
  enum class Kind : uint8_t { quiet, access, wait, awaits, fence, wide };
  // A process that waits at a barrier, or for other lanes of its warp.
  struct Waiting {
    uint64_t process;
    const Warp* warp;
    int lane;
  };
  // The values that a process has read since it last changed something. They are forgotten if another process
  // changes them.
  struct Poll {
    std::map<uint64_t, uint64_t> watched;  // for each place, its number of changes when it was read
    std::map<uint32_t, Footprint> at;      // what each instruction has read
    bool waits = false;
  };

  static Kind kind_of(std::string_view text) {
    if (text.starts_with("@")) text.remove_prefix(std::min(text.size(), text.find(' ') + 1));
    auto is = [&](std::initializer_list<std::string_view> any) {
      return std::ranges::any_of(any, [&](std::string_view word) { return text.starts_with(word); });
    };
    if (is({"ld.param", "ld.const", "ld.local", "st.local", "st.param"})) return Kind::quiet;
    if (is({"mbarrier.test_wait", "mbarrier.try_wait"})) return Kind::wait;
    if (is({"membar", "fence.sc"})) return Kind::fence;
    if (is({"cp.async.wait", "cp.async.bulk.wait"})) return Kind::awaits;
    if (is({"cp.async.commit", "cp.async.bulk.commit", "cp.async.bulk.prefetch"})) return Kind::quiet;
    if (is({"mbarrier.init", "mbarrier.inval"})) return Kind::wide;
    if (is({"ld", "st", "atom", "red", "mbarrier", "multimem", "ldmatrix", "stmatrix", "wmma.load",
            "wmma.store", "cp."}))
      return Kind::access;
    if (is({"wgmma", "tcgen05", "griddepcontrol", "tensormap", "fence.proxy.tensormap", "setmaxnreg",
            "call"}))
      return Kind::wide;
    return Kind::quiet;
  }

  static uint64_t name_of(const Cluster& cluster, uint64_t what) { return cluster.index << 32 | what; }
  static uint64_t name_of(const Cluster& cluster, const Event& event) {
    return name_of(cluster, uint64_t{1} << 31 | event.number);
  }
  static uint64_t name_of(const Warp& warp, int lane) {
    return name_of(warp.cluster(),
                   uint64_t{warp.cta.rank} << 16 | warp.index << 5 | static_cast<uint32_t>(lane));
  }

  // Returns whether a fragment can take a step. Lanes wait at a meeting point until other lanes need them, or
  // until nothing else can continue.
  bool can_go_on(const Warp& warp, const Fragment& f) const {
    if (f.wait == Wait::meeting) return f.until == 0;
    return f.wait != Wait::others && warp.runnable(f);
  }

  void list_moves() {
    moves_.clear();
    for (const auto& cluster : resident_) {
      for (Warp* warp : cluster->all_)
        for (size_t f = 0; f < warp->fragments_.size(); ++f) {
          const Fragment& fragment = warp->fragments_[f];
          const uint64_t process = name_of(*warp, __builtin_ctz(fragment.lanes));
          if (can_go_on(*warp, fragment) && !still_polls(process))
            moves_.push_back({process, cluster.get(), warp, f});
        }
      for (size_t e = 0; e < cluster->events.size(); ++e)
        if (const Event& event = cluster->events[e]; !event.ready || event.ready())
          moves_.push_back({name_of(*cluster, event), cluster.get(), nullptr, e});
    }
  }

  void make(const Move& move) {
    record_.clear();
    Cluster& cluster = *move.cluster;
    const uint64_t operations = cluster.operations;
    if (!move.warp) {
      const auto operation = operations_.extract(move.process);
      if (operation)
        record_.footprint = operation.mapped();
      else  // a delayed instruction has begun the operation
        record_.footprint.add(Footprint::anything, true);
      record_.stores = true;
      Event event = std::move(cluster.events[move.which]);
      cluster.events.erase(cluster.events.begin() + static_cast<std::ptrdiff_t>(move.which));
      event.complete();
      begin_operations(cluster, operations, record_.footprint);
      return finish(move.process, no_pc);
    }
    Warp& warp = *move.warp;
    const int lane = __builtin_ctz(warp.fragments_[move.which].lanes);
    const uint32_t pc = warp.fragments_[move.which].pc;
    const Kind kind = kinds_[pc];
    if (kind != Kind::quiet) record_.footprint.add(Footprint::anything, kind == Kind::wide);
    record_.stores = kind == Kind::wide;
    record_.is_wait = kind == Kind::wait;
    if (kind == Kind::fence && grid_.weak) record_.add_sequential(true);
    if (kind == Kind::awaits) record_.add_groups(warp, false);
    list_waiting(cluster);
    reader_ = {move.process, pc};
    constexpr uint64_t most_quiet = 1'000'000;
    size_t f = move.which;
    for (uint64_t n = 0; n < most_quiet; ++n) {
      cluster.steps += std::max<uint64_t>(1, warp.run(f, 1));
      const auto at = std::ranges::find_if(warp.fragments_,
                                           [&](const Fragment& x) { return (x.lanes >> lane & 1) != 0; });
      if (at == warp.fragments_.end() || !can_go_on(warp, *at) || kinds_[at->pc] != Kind::quiet) break;
      f = static_cast<size_t>(at - warp.fragments_.begin());
      if (n % 4096 == 4095) check_deadline();
    }
    if (cluster.histories.size() > cluster.collect_at_) cluster.collect();
    list_met();
    if (cluster.operations != operations) {
      StepRecord operation;
      operation.footprint = record_.footprint;
      operation.add_groups(warp, true);
      begin_operations(cluster, operations, operation.footprint);
    }
    finish(move.process, pc);
  }

  // Records the operations that the step has posted, whose numbers are at least `first`. They may access at
  // any later time what the step has accessed.
  void begin_operations(const Cluster& cluster, uint64_t first, const Footprint& footprint) {
    for (const Event& event : cluster.events)
      if (event.number >= first) {
        begun_.push_back(name_of(cluster, event));
        operations_[begun_.back()] = footprint;
      }
  }

  // list_waiting() lists the processes that wait before a step. list_met() lists those processes of this list
  // that can continue after the step.
  void list_waiting(const Cluster& cluster) {
    for (const Warp* warp : cluster.all_)
      for (const Fragment& f : warp->fragments_)
        if (f.wait == Wait::barrier || f.wait == Wait::aligned || f.wait == Wait::lanes)
          if (const int lane = __builtin_ctz(f.lanes); !warp->runnable(f))
            waiting_.push_back({name_of(*warp, lane), warp, lane});
  }
  void list_met() {
    for (const Waiting& w : waiting_)
      for (const Fragment& f : w.warp->fragments_)
        if ((f.lanes >> w.lane & 1) != 0 && can_go_on(*w.warp, f)) met_.push_back(w.process);
    waiting_.clear();
  }

  // Picks the store that a load reads. If a reader has already read a store with the same instruction, and
  // there is a newer store, the reader does not read the older one again.
  size_t choose(std::span<const uint64_t> stores, bool loads) {
    if (!loads) return exploration_.value(stores.size());
    uint64_t& last = last_read_.try_emplace(reader_, ~uint64_t{0}).first->second;
    const size_t known = last == stores[0] ? 1 : 0, which = known + exploration_.value(stores.size() - known);
    last = stores[which];
    record_.reads_older |= which + 1 < stores.size();
    return which;
  }

  void finish(uint64_t process, uint32_t pc) {
    note_poll(process, pc);
    exploration_.done(record_.footprint, begun_, met_);
    begun_.clear();
    met_.clear();
  }

  // A process polls if it repeats a read with the same instruction and gets the same values. It then lets
  // other processes run until one of them changes something that it has read since its own last change.
  void note_poll(uint64_t process, uint32_t pc) {
    Poll& poll = polls_[process];
    if (record_.changes()) {
      for (const auto& [place, writes] : record_.footprint.places())
        if (writes) ++changes_[place];
      poll = {};
      idle_ = 0;
      return;
    }
    if (record_.footprint.places().size() <= 1) return;  // the step has read nothing
    const auto before = poll.at.find(pc);
    if (before != poll.at.end() && same(before->second, record_.footprint) && !record_.reads_older &&
        !has_changed(poll)) {
      poll.waits = true;
      return;
    }
    if (record_.reads_older || has_changed(poll)) poll = {};
    for (const auto& [place, writes] : record_.footprint.places()) poll.watched[place] = changes_[place];
    if (!record_.reads_older) poll.at[pc] = record_.footprint;
    idle_ = 0;
  }

  static bool same(const Footprint& a, const Footprint& b) { return a.places() == b.places(); }

  bool has_changed(const Poll& poll) {
    return std::ranges::any_of(poll.watched,
                               [&](const auto& seen) { return changes_[seen.first] != seen.second; });
  }

  bool still_polls(uint64_t process) {
    const auto at = polls_.find(process);
    if (at == polls_.end() || !at->second.waits) return false;
    if (has_changed(at->second)) at->second = {};
    return at->second.waits;
  }

  // Called if no process can continue. Lets lanes continue without the lanes that they should meet. If there
  // are no such lanes, continues delayed instructions or their operations. If there are none of these either,
  // lets pollers read once more.
  void unblock() {
    bool any = false;
    for (const auto& cluster : resident_) any |= cluster->part_meetings();
    if (any) return;
    for (const auto& cluster : resident_) any |= cluster->end_delay() || cluster->complete_delayed();
    if (any) return;
    for (auto& [process, poll] : polls_) {
      any |= poll.waits;
      poll.waits = false;
    }
    for (const auto& cluster : resident_) {
      cluster->idle_ += 1000;
      any |= cluster->wake_pollers();
    }
    constexpr int most_idle = 40;
    if (!any || ++idle_ > most_idle) resident_.front()->deadlock();
  }

  void check_deadline() {
    const bool is_late = std::chrono::steady_clock::now() >= deadline_;
    if (is_late || is_interrupted())
      throw EmulatorError(Fault::time_limit, 0,
                          fmt::format("{}: kernel {} was {}", name(Fault::time_limit), grid_.kernel.name,
                                      is_late ? "not done in time" : "interrupted"));
  }

  const Grid& grid_;
  Exploration& exploration_;
  std::chrono::steady_clock::time_point deadline_;
  std::vector<Kind> kinds_;  // kind of each instruction
  std::vector<std::unique_ptr<Cluster>> resident_;
  std::vector<Move> moves_;
  StepRecord record_;
  std::unordered_map<uint64_t, Poll> polls_;                     // indexed by process
  std::unordered_map<uint64_t, uint64_t> changes_;               // number of changes of each place
  std::pair<uint64_t, uint32_t> reader_;                         // process and program counter of the step
  std::map<std::pair<uint64_t, uint32_t>, uint64_t> last_read_;  // the store that each reader read last
  std::unordered_map<uint64_t, Footprint> operations_;           // operations in flight, indexed by process
  std::vector<uint64_t> begun_, met_;                            // results of the step; see Exploration::done
  std::vector<Waiting> waiting_;
  int idle_ = 0;  // rounds in which the pollers have read nothing new
};

void run_explored(const Grid& grid, std::chrono::steady_clock::time_point deadline,
                  EmulatorStatistics& statistics) {
  ++statistics.launches;
  ExploredLaunch(grid, deadline).run(statistics);
}

}  // namespace ptxbuilder::runtime::emulator
