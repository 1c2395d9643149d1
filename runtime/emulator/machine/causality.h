// The facts on which one warp may rely: which actions of other threads happen before the warp's next action,
// and what the warp's next release passes on (PTX ISA, "Memory Consistency Model"). If races are not checked,
// the warp knows nothing about other threads.
#pragma once

#include <array>

#include "runtime/emulator/machine/clock.h"
#include "runtime/emulator/machine/lane_order.h"
#include "runtime/emulator/machine/shadow.h"

namespace ptxbuilder::runtime::emulator {

class Causality {
 public:
  // `actor` is the warp's number among the actors of its cluster.
  Causality(Actor actor, bool is_checked) : actor_(actor), is_checked_(is_checked) {
    knowledge_.seen.raise(actor, time_);
  }

  Actor actor() const { return actor_; }
  uint32_t time() const { return time_; }
  const Knowledge& knowledge() const { return knowledge_; }
  const LaneOrder& lanes() const { return lanes_; }
  // Returns the stamp of the lane's latest access that a release has passed on; see LaneOrder.
  uint32_t released(size_t lane) const { return released_[lane]; }

  // Returns what a releasing operation passes on. release() is for an operation of all lanes. release_of() is
  // for one lane, which passes on its own accesses, and what each other lane had done when the two last met.
  Knowledge release();
  Knowledge release_of(int lane);
  void acquire(const Knowledge& k) {
    if (is_checked_) knowledge_.join(k);
  }
  // Records that the warp now knows that everything `actor` did until `time` is done.
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

  // Called when a relaxed access has read a word that passes on `passed`. A later fence of this scope or a
  // wider one acquires that knowledge.
  // fenced_release() returns what a relaxed write passes on, i.e. what the last fence released.
  void meets(const Knowledge& passed, Scope scope) { to_acquire_[static_cast<size_t>(scope)].join(passed); }
  const Knowledge& fenced_release() const { return to_release_; }
  void fence(Scope scope);
  // Executes fence.proxy.async: the generic writes that these lanes know of become visible to the async
  // proxy. A lane knows of another lane's writes once the two have met.
  void fence_proxy(Lanes who);
  void fence_inits();  // executes fence.mbarrier_init
  // These functions are for global memory. publish() executes a fence, and published() returns what a relaxed
  // access of the scope passes on after it. fence_global_proxy() executes a fence.proxy.async. settle()
  // executes a fence.sc, after which the warp sees all stores up to number `store`.
  void publish(Scope scope);
  Knowledge published(Scope scope) const;
  bool has_published(Scope scope) const {  // whether a fence of exactly this scope has published something
    if (!knowledge_.global) return false;
    const auto& published = knowledge_.global->published;
    const auto s = static_cast<size_t>(scope);
    return published[s] && (s + 1 == published.size() || published[s] != published[s + 1]);
  }
  bool has_published() const { return knowledge_.global && knowledge_.global->published[0]; }
  void fence_global_proxy();
  void settle(uint64_t store);

  // Calls f while the warp's knowledge is extended by these clocks.
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
  std::shared_ptr<GlobalKnowledge> own_global() const;  // a copy that the caller changes

  Actor actor_;
  bool is_checked_;
  uint32_t time_ = 1;
  Knowledge knowledge_;
  std::array<Knowledge, 4> to_acquire_;  // indexed by scope
  Knowledge to_release_;
  LaneOrder lanes_;
  // These members describe the lanes' accesses to shared memory after all lanes last met, at `met_time_`.
  // Lanes in `unfenced_` have stored and not executed a fence afterwards. Lanes in `unreleased_` have
  // accessed it and not released afterwards.
  Lanes unfenced_ = 0, unreleased_ = 0;
  uint32_t met_time_ = 0;
  std::array<uint32_t, 32> released_{};  // for each lane, the stamp up to which its accesses are released
};

}  // namespace ptxbuilder::runtime::emulator
