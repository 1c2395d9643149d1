// Vector clocks, which record what each thread of a cluster knows to be done.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace ptxbuilder::runtime::emulator {

// An actor is anything whose actions are ordered among themselves: a warp, an mbarrier (its actions are its
// phases), the wgmma groups of a warpgroup, or the bulk groups of a thread. Times count from 1.
using Actor = uint32_t;

class Clock {
 public:
  uint32_t operator[](Actor actor) const { return actor < times_.size() ? times_[actor] : 0; }

  void raise(Actor actor, uint32_t time) {
    if (actor >= times_.size()) times_.resize(actor + 1, 0);
    times_[actor] = std::max(times_[actor], time);
  }

  void join(const Clock& other) {
    if (other.times_.size() > times_.size()) times_.resize(other.times_.size(), 0);
    for (size_t i = 0; i < other.times_.size(); ++i) times_[i] = std::max(times_[i], other.times_[i]);
  }

  // Forgets the actor's actions after `time`.
  void lower(Actor actor, uint32_t time) {
    if (actor < times_.size()) times_[actor] = std::min(times_[actor], time);
  }

  // Returns true if this clock includes everything that `other` includes.
  bool covers(const Clock& other) const {
    for (size_t i = 0; i < other.times_.size(); ++i)
      if (other.times_[i] > (*this)[static_cast<Actor>(i)]) return false;
    return true;
  }

  void clear() { times_.clear(); }
  bool empty() const { return times_.empty(); }

 private:
  std::vector<uint32_t> times_;
};

// Additional facts about global memory on which one thread may rely. Few threads have such facts, so they
// share immutable objects.
struct GlobalKnowledge {
  using Pointer = std::shared_ptr<const GlobalKnowledge>;

  Clock fenced;  // writes that a fence.proxy.async of global memory has covered
  // The facts that are known about the actors of another cluster of the launch.
  struct Remote {
    Clock seen, fenced;
  };
  std::map<uint64_t, std::shared_ptr<const Remote>> others;  // indexed by the number of the cluster
  uint64_t settled = 0;  // stores up to this one happen before the next action; see WeakMemory
  // The facts that were known at a fence. Relaxed accesses after the fence pass them on.
  struct Published {
    Clock seen;
    Pointer global;
  };
  // One element per scope. A fence also sets the elements of narrower scopes.
  std::array<std::shared_ptr<const Published>, 4> published = {};

  // Returns true if a quick check finds that this object includes everything that `other` includes.
  bool covers(const GlobalKnowledge& other) const;
  // Returns the union of a and b. A null pointer represents no knowledge.
  static Pointer join(const Pointer& a, const Pointer& b);
};

// The facts on which a thread may rely. Releases and acquires pass them from thread to thread.
struct Knowledge {
  Clock seen;    // actions that are done (PTX ISA, "Causality Order")
  Clock fenced;  // generic-proxy writes that a fence.proxy.async has made visible to the async proxy
  Clock inits;   // mbarrier.inits that a fence.mbarrier_init has published
  // Holds later times than `seen` for warps in which only some lanes have released since all lanes met. An
  // access up to such a time is done only if the lane that made it has released it.
  Clock told;
  GlobalKnowledge::Pointer global;
  GlobalKnowledge::Pointer joined;  // the last operand that join() added to `global`; polls add it again

  // Returns true if this knowledge includes what an actor of a cluster has done up to `time`. `is_own` states
  // that the thread with this knowledge belongs to that cluster.
  bool covers(bool is_own, uint64_t cluster, Actor actor, uint32_t time) const {
    if (is_own) return seen[actor] >= time || told[actor] >= time;
    if (!global) return false;
    const auto at = global->others.find(cluster);
    return at != global->others.end() && at->second->seen[actor] >= time;
  }

  void join(const Knowledge& other) {
    if (other.global && other.global != joined) {
      global = GlobalKnowledge::join(global, other.global);
      joined = other.global;
    }
    seen.join(other.seen);
    fenced.join(other.fenced);
    inits.join(other.inits);
    told.join(other.told);
  }

  void clear() {
    seen.clear();
    fenced.clear();
    inits.clear();
    told.clear();
    global.reset();
    joined.reset();
  }
};

}  // namespace ptxbuilder::runtime::emulator
