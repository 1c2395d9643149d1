// The facts on which one warp may rely: which actions of others come before what it does now, and what a
// release of its own passes on (PTX ISA, "Memory Consistency Model"). If a launch is not checked, nothing is
// known about anyone.
#pragma once

#include <array>

#include "runtime/emulator/machine/clock.h"
#include "runtime/emulator/machine/lane_order.h"
#include "runtime/emulator/machine/shadow.h"

namespace ptxbuilder::runtime::emulator {

class Causality {
 public:
  // The warp is `actor` among those of its cluster.
  Causality(Actor actor, bool is_checked) : actor_(actor), is_checked_(is_checked) {
    knowledge_.seen.raise(actor, time_);
  }

  Actor actor() const { return actor_; }
  uint32_t time() const { return time_; }
  const Knowledge& knowledge() const { return knowledge_; }
  const LaneOrder& lanes() const { return lanes_; }
  // The last of its own accesses that a release by this lane has passed on; see LaneOrder.
  uint32_t released(size_t lane) const { return released_[lane]; }

  // Returns what a releasing operation of all lanes passes on; a release by one lane passes on what others
  // had done when that lane met them.
  Knowledge release();
  Knowledge release_of(int lane);
  void acquire(const Knowledge& k) {
    if (is_checked_) knowledge_.join(k);
  }
  // Records that what `actor` had done by `time` is done, as the warp knows from now on.
  void learn(Actor actor, uint32_t time) { knowledge_.seen.raise(actor, time); }
  // Called when these lanes learn through an mbarrier or an ordering word what all lanes have done.
  void told(Lanes who, Lanes alive) { lanes_.learn(who, alive); }
  // Called when these lanes have waited for each other.
  void meet(Lanes who, Lanes alive) {
    lanes_.meet(who, alive);
    if ((unfenced_ | unreleased_) == 0 || (alive & ~who) != 0) return;
    unfenced_ = unreleased_ = 0;
    met_time_ = time_;
    step();
  }
  // Called when these lanes access shared memory.
  void accesses(Lanes who, bool writes) {
    if (writes) unfenced_ |= who;
    unreleased_ |= who;
  }

  // A relaxed access has read a word with `passed`, which a fence of the scope, or of a wider one, acquires;
  // the access passes on what a fence has released.
  void meets(const Knowledge& passed, Scope scope) { to_acquire_[static_cast<size_t>(scope)].join(passed); }
  const Knowledge& fenced_release() const { return to_release_; }
  void fence(Scope scope);
  // fence.proxy.async: the generic writes that these lanes know of become visible to the async proxy. The
  // lanes know what other lanes have stored once they have met them.
  void fence_proxy(Lanes who);
  void fence_inits();  // fence.mbarrier_init
  // These functions are for global memory: a fence, and what a relaxed access of the scope passes on after
  // it; a fence.proxy.async of generic writes; and a fence.sc, after which stores up to `store` are seen.
  void publish(Scope scope);
  Knowledge published(Scope scope) const;
  bool has_published(Scope scope) const {  // other than what it has for a wider one
    if (!knowledge_.global) return false;
    const auto& published = knowledge_.global->published;
    const auto s = static_cast<size_t>(scope);
    return published[s] && (s + 1 == published.size() || published[s] != published[s + 1]);
  }
  bool has_published() const { return knowledge_.global && knowledge_.global->published[0]; }
  void fence_global_proxy();
  void settle(uint64_t store);

  // Calls f with the warp's knowledge extended by these clocks.
  template <class F>
  void assuming(std::initializer_list<const Clock*> clocks, F f) {
    const Clock before = knowledge_.seen;
    for (const Clock* clock : clocks) knowledge_.seen.join(*clock);
    f();
    knowledge_.seen = before;
  }
  // Separates the warp's later actions from what it has done so far.
  void step() { knowledge_.seen.raise(actor_, ++time_); }

 private:
  std::shared_ptr<GlobalKnowledge> own_global() const;  // a copy that is to be changed

  Actor actor_;
  bool is_checked_;
  uint32_t time_ = 1;
  Knowledge knowledge_;
  std::array<Knowledge, 4> to_acquire_;  // by scope
  Knowledge to_release_;
  LaneOrder lanes_;
  // Since all lanes met: those that have stored to shared memory and not fenced since, and those that have
  // accessed it and not released it since; and the time of that meeting.
  Lanes unfenced_ = 0, unreleased_ = 0;
  uint32_t met_time_ = 0;
  std::array<uint32_t, 32> released_{};  // the stamp up to which each lane's accesses have been released
};

}  // namespace ptxbuilder::runtime::emulator
