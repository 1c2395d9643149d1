// One cluster: its CTAs, the operations in flight between them, and the schedule in which they proceed.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/emulator/machine/cta.h"
#include "runtime/emulator/machine/in_flight.h"
#include "runtime/emulator/machine/observer.h"
#include "runtime/emulator/machine/random_numbers.h"
#include "runtime/emulator/machine/sums.h"

namespace ptxbuilder::runtime::emulator {

// An asynchronous operation, or a step of one. It may complete at any time after it was posted.
struct Event {
  std::function<void()> complete;
  uint64_t number;                // counts the operations of the cluster
  std::function<bool()> ready{};  // false if complete() would only postpone; null means always ready
};

struct ActorName {
  enum class Kind : uint8_t { none, prior_launch, warp, mbarrier, wgmma, tensor, bulk, copy } kind;
  const Cta* cta;
  uint32_t index;  // number of the warp, offset of the mbarrier, number of the warpgroup, or warp * 32 + lane
};

// The bytes [offset, offset + bytes) of a CTA's shared memory.
struct SharedPiece {
  uint32_t offset, bytes;
};

// The actor that represents the previous launch. Its only time is the end of that launch.
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
  uint64_t version = 1;  // rises with every change that can end a wait
  uint64_t steps = 0;    // instructions executed by all warps
  uint64_t operations = 0;
  std::deque<Event> events;
  std::vector<ActorName> actors;
  Barrier barrier;                                      // barrier.cluster
  std::unordered_map<uint64_t, MapChange> map_changes;  // indexed by the map's address
  // The pieces of shared memory that hold each matrix that wgmma has read, indexed by the matrix's descriptor
  // and shape. They are stored because a loop reads the same matrices repeatedly.
  std::map<std::array<uint32_t, 8>, std::vector<SharedPiece>> matrices;
  uint32_t live_warps = 0;
  bool posts_delayed = false;   // true while a delayed instruction, or an operation that it started, runs
  std::unique_ptr<Sums> ahead;  // the postponed sums, set while the cluster runs ahead of its turn
  bool awaits_turn = false;     // true once the cluster has reached an instruction that needs its turn

  // Runs for about `budget` instructions. `goes_on` is called often; if it returns false, the launch ends.
  // The result `stalled` means that every thread waits, and some sleep, for example until another CTA stores
  // a flag. `polling` means that every thread that can run has read the same value as before.
  enum class Outcome : uint8_t { running, polling, stalled, finished };
  Outcome run(uint64_t budget, const std::function<bool()>& goes_on);
  [[noreturn]] void deadlock();
  // Performs the postponed sums. Called when the cluster's turn begins.
  void begin_turn();

  // Return the number of the cluster, or of one of its CTAs, among all launches that run at once.
  uint64_t number() const { return grid.first_cluster + index; }
  uint64_t number_of(const Cta& cta) const { return number() * kMostCtas + cta.rank; }

  Actor new_actor(ActorName name);
  void post(std::function<void()> complete, std::function<bool()> ready = {}) {
    Event event{std::move(complete), operations, std::move(ready)};
    posts_delayed ? delayed_.push_back(std::move(event)) : events.push_back(std::move(event));
    ++operations;
  }
  void changed() { ++version; }
  // Returns how long lanes wait for the lanes that they should meet, as a number of instructions of their
  // warp.
  uint64_t patience() const { return patience_; }
  // Called when a warp arrives. Completes the barrier if all running warps have arrived.
  void complete_barrier();
  // Returns a random number less than `below`. Returns 0 if an exploration chooses the schedule, because the
  // exploration runs the same program repeatedly.
  uint64_t random(uint64_t below) {
    return below <= 1 || grid.options.exploration ? 0 : (engine_() >> 11) % below;
  }
  // Adds the cluster's counts to `statistics`.
  void count_in(EmulatorStatistics& statistics) const;
  // Returns what a later launch knows of this cluster, and through it, once the cluster has ended.
  GlobalKnowledge::Pointer known_at_end() const;
  std::string describe(const Access& access, bool wrote) const;
  std::string picture() const;  // describes what each thread waits for
  uint64_t nanoseconds() const { return steps + idle_; }

 private:
  static constexpr uint64_t kMostCtas = 256;  // limit of CTAs per cluster
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

  RandomNumbers engine_;
  uint32_t burst_ = 64;
  uint64_t patience_ = 500;
  double completion_ = 0.3;  // probability that an operation completes before a burst
  bool priorities_ = false;
  std::vector<uint64_t> priority_;   // indexed by warp; used if `priorities_` is true
  const Warp* favourite_ = nullptr;  // the warp with the highest priority, if it ran last
  uint32_t turns_ = 0;
  bool in_order_ = false;  // whether operations complete in the order of issue
  uint64_t stale_version_ = 0, slept_version_ = 0, idle_ = 0;
  uint64_t seen_version_ = 0,
           seen_at_ = 0;         // version and step at the last change that run() has noticed
  size_t collect_at_ = 1 << 13;  // small enough that all states fit the host's cache
  uint32_t stale_rounds_ = 0;
  uint32_t wakes_ = 0;  // number of times that sleeping threads were woken since the last change
  size_t next_warp_ = 0;
  std::vector<Warp*> all_;
  std::vector<Event> delayed_;  // operations that delayed instructions have started
};

}  // namespace ptxbuilder::runtime::emulator
