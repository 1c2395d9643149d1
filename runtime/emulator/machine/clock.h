// Vector clocks: they record what each thread of a cluster knows to be done.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace ptxbuilder::runtime::emulator {

// An actor is anything whose actions are ordered among themselves: a warp, an mbarrier (its phases), a
// warpgroup's wgmma groups, a thread's bulk groups. Times count from 1.
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

  // Forgets everything after `time`.
  void lower(Actor actor, uint32_t time) {
    if (actor < times_.size()) times_[actor] = std::min(times_[actor], time);
  }

  // Returns true if this clock includes everything that `other` does.
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

// Additional facts about global memory on which one thread may rely. Few threads have any, so one object is
// created and shared.
struct GlobalKnowledge {
  using Pointer = std::shared_ptr<const GlobalKnowledge>;

  Clock fenced;  // writes that a fence.proxy.async of global memory has covered
  // The state that is known of the actors of another cluster of the launch.
  struct Remote {
    Clock seen, fenced;
  };
  std::map<uint64_t, std::shared_ptr<const Remote>> others;  // by cluster
  uint64_t settled = 0;  // stores up to this one come before what it does now; see WeakMemory
  // A relaxed access after a fence passes on what was known at the fence.
  struct Published {
    Clock seen;
    Pointer global;
  };
  std::array<std::shared_ptr<const Published>, 4> published = {};  // by fences of each scope, or a wider one

  // Returns true if a quick check finds that this includes all that `other` includes.
  bool covers(const GlobalKnowledge& other) const;
  // Returns the union of both; null means nothing.
  static Pointer join(const Pointer& a, const Pointer& b);
};

// The facts on which a thread may rely. They travel with every release and acquire.
struct Knowledge {
  Clock seen;    // done before now (PTX ISA, "Causality Order")
  Clock fenced;  // generic-proxy writes that a fence.proxy.async has made visible to the async proxy
  Clock inits;   // mbarrier.inits that a fence.mbarrier_init has published
  // This is for warps with a lane that has arrived at an mbarrier for itself alone: what is done of those of
  // its lanes that have arrived since.
  Clock told;
  GlobalKnowledge::Pointer global;
  GlobalKnowledge::Pointer joined;  // a part of `global`, which polls of one word join again and again

  // True where this tells that what an actor of a cluster has done by `time` is done; `is_own` says that the
  // cluster is that of the one who knows.
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
