#include "runtime/emulator/machine/causality.h"

#include <algorithm>

namespace ptxbuilder::runtime::emulator {

Knowledge Causality::release() {
  if (!is_checked_) return {};
  Knowledge passed = knowledge_;
  step();
  return passed;
}

Knowledge Causality::release_of(int lane) {
  if (!is_checked_) return {};
  unreleased_ &= ~(Lanes{1} << lane);
  released_[static_cast<size_t>(lane)] = lanes_.end();
  Knowledge passed = release();
  if (unreleased_) {
    for (int other = 0; other < 32; ++other) {
      uint32_t& of_other = released_[static_cast<size_t>(other)];
      of_other = std::max(of_other, lanes_.known(lane, other));
    }
    passed.told.raise(actor_, passed.seen[actor_]);
    passed.seen.lower(actor_, met_time_);
  }
  return passed;
}

void Causality::fence(Scope scope) {
  for (size_t s = 0; s <= static_cast<size_t>(scope); ++s) {
    acquire(to_acquire_[s]);
    to_acquire_[s].clear();
  }
  to_release_ = release();
}

void Causality::fence_proxy(Lanes who) {
  if (!is_checked_) return;
  unfenced_ &= ~who;
  auto known = knowledge_.seen;
  if (unfenced_) known.lower(actor_, met_time_);
  knowledge_.fenced.join(known);
  step();
}

std::shared_ptr<GlobalKnowledge> Causality::own_global() const {
  return knowledge_.global ? std::make_shared<GlobalKnowledge>(*knowledge_.global)
                           : std::make_shared<GlobalKnowledge>();
}

void Causality::publish(Scope scope) {
  if (!is_checked_) return;
  auto published = std::make_shared<GlobalKnowledge::Published>();
  published->seen = knowledge_.seen;
  published->seen.join(knowledge_.told);
  auto global = own_global();
  global->published = {};
  published->global = std::make_shared<GlobalKnowledge>(*global);
  if (knowledge_.global) global->published = knowledge_.global->published;
  // A fence also covers everything that a fence of a narrower scope covers.
  for (size_t s = 0; s <= static_cast<size_t>(scope); ++s) global->published[s] = published;
  knowledge_.global = std::move(global);
  step();
}

Knowledge Causality::published(Scope scope) const {
  Knowledge passed;
  if (!knowledge_.global) return passed;
  const auto& published = knowledge_.global->published[static_cast<size_t>(scope)];
  if (!published) return passed;
  passed.seen = published->seen;
  passed.global = published->global;
  // A fence.proxy.async counts even if it follows the fence.
  if (!passed.global->fenced.covers(knowledge_.global->fenced)) {
    auto global = std::make_shared<GlobalKnowledge>(*passed.global);
    global->fenced = knowledge_.global->fenced;
    passed.global = std::move(global);
  }
  return passed;
}

void Causality::settle(uint64_t store) {
  auto global = own_global();
  global->settled = std::max(global->settled, store);
  knowledge_.global = std::move(global);
}

void Causality::fence_global_proxy() {
  if (!is_checked_) return;
  auto global = own_global();
  global->fenced.join(knowledge_.seen);
  global->fenced.join(knowledge_.told);
  for (auto& [cluster, remote] : global->others)
    if (!remote->fenced.covers(remote->seen))
      remote = std::make_shared<GlobalKnowledge::Remote>(GlobalKnowledge::Remote{remote->seen, remote->seen});
  knowledge_.global = std::move(global);
  step();
}

void Causality::fence_inits() {
  if (!is_checked_) return;
  knowledge_.inits.join(knowledge_.seen);
  step();
}

}  // namespace ptxbuilder::runtime::emulator
