// One cluster: its CTAs, what is in flight between them, and the schedule by which all of that goes on.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/emulator/machine/cta.h"
#include "runtime/emulator/machine/in_flight.h"
#include "runtime/emulator/machine/observer.h"
#include "runtime/emulator/machine/sums.h"

namespace ptxbuilder::runtime::emulator {

// An asynchronous operation, or a step of one, that can complete at any time from now on.
struct Event {
  std::function<void()> complete;
  uint64_t number;                // among those of the cluster
  std::function<bool()> ready{};  // where it is false, complete() only puts off; null is always true
};

struct ActorName {
  enum class Kind : uint8_t { none, prior_launch, warp, mbarrier, wgmma, tensor, bulk, copy } kind;
  const Cta* cta;
  uint32_t index;  // warp, offset of the mbarrier, warpgroup, warp * 32 + lane
};

// [offset, offset + bytes) of a CTA's shared memory.
struct SharedPiece {
  uint32_t offset, bytes;
};

// The launch ahead, whose only time is its end.
inline constexpr Actor prior_launch = 1;

class Cluster {
 public:
  Cluster(const Grid& grid, uint64_t index);

  const Grid& grid;
  const uint64_t index;
  const bool checks;
  std::vector<std::unique_ptr<Cta>> ctas;
  Observers observers;
  Histories histories;
  uint64_t version = 1;  // rises with all that can end a wait
  uint64_t steps = 0;    // instructions executed by all warps
  uint64_t operations = 0;
  std::vector<Event> events;
  std::vector<ActorName> actors;
  Barrier barrier;                                      // barrier.cluster
  std::unordered_map<uint64_t, MapChange> map_changes;  // by address
  // The pieces of each matrix that wgmma has read, by its descriptor and shape: a loop reads the same ones.
  std::map<std::array<uint32_t, 8>, std::vector<SharedPiece>> matrices;
  uint32_t live_warps = 0;
  bool posts_delayed = false;   // true while a delayed instruction, or something that it started, runs
  std::unique_ptr<Sums> ahead;  // while it runs ahead of its turn: the sums that are put off
  bool awaits_turn = false;     // it has reached an instruction that needs its turn

  // Runs for about `budget` instructions. Stalled: every thread waits, and some sleep, for example for
  // another CTA. Polling: all that could run have read what they had read before. `goes_on` is called often;
  // if it returns false, the launch ends.
  enum class Outcome : uint8_t { running, polling, stalled, finished };
  Outcome run(uint64_t budget, const std::function<bool()>& goes_on);
  [[noreturn]] void deadlock();
  // Called when the cluster's turn comes: performs what it has put off.
  void begin_turn();

  // The numbers of the cluster and of a CTA, among all launches that run at once.
  uint64_t number() const { return grid.first_cluster + index; }
  uint64_t number_of(const Cta& cta) const { return number() * kMostCtas + cta.rank; }

  Actor new_actor(ActorName name);
  void post(std::function<void()> complete, std::function<bool()> ready = {}) {
    (posts_delayed ? delayed_ : events).push_back({std::move(complete), operations, std::move(ready)});
    ++operations;
  }
  void changed() { ++version; }
  // Returns for how many instructions of their warp lanes wait for others that they should meet.
  uint64_t patience() const { return patience_; }
  void complete_barrier();  // if every warp that runs has arrived
  // Always 0 if an exploration chooses the schedule, since it runs the same program repeatedly.
  uint64_t random(uint64_t below) {
    return below <= 1 || grid.options.exploration ? 0 : (engine_() >> 11) % below;
  }
  // Adds the cluster's counts.
  void count_in(EmulatorStatistics& statistics) const;
  // Returns what a launch after this one knows of this cluster and through it, once the cluster has ended.
  GlobalKnowledge::Pointer known_at_end() const;
  std::string describe(const Access& access, bool wrote) const;
  std::string picture() const;  // who waits for what
  uint64_t nanoseconds() const { return steps + idle_; }

 private:
  static constexpr uint64_t kMostCtas = 256;  // of a cluster
  friend class ExploredLaunch;
  struct Choice {
    Warp* warp;
    size_t fragment;
  };
  void choose_policy();
  bool pick(Choice& choice);
  bool can_run_more_than(size_t count) const;
  void complete_one();
  bool complete_delayed();
  bool wake_pollers();
  bool wake_sleepers();
  bool part_meetings();
  bool end_delay();
  void collect();

  std::mt19937_64 engine_;
  uint32_t burst_ = 64;
  uint64_t patience_ = 500;
  double completion_ = 0.3;  // chance of completing an operation before each burst
  bool priorities_ = false;
  std::vector<uint64_t> priority_;   // by warp, when `priorities_`
  const Warp* favourite_ = nullptr;  // of highest priority, which has had so many turns in a row
  uint32_t turns_ = 0;
  bool in_order_ = false;  // operations complete in the order of issue
  uint64_t stale_version_ = 0, slept_version_ = 0, idle_ = 0;
  uint64_t seen_version_ = 0,
           seen_at_ = 0;         // when run() was called last after a change, and the step of then
  size_t collect_at_ = 1 << 13;  // few states stay in the host's cache
  uint32_t stale_rounds_ = 0;
  uint32_t wakes_ = 0;  // Counts how often sleepers were woken since the last change.
  size_t next_warp_ = 0;
  std::vector<Warp*> all_;
  std::vector<Event> delayed_;  // what delayed instructions have started
};

}  // namespace ptxbuilder::runtime::emulator
