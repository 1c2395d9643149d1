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

void Causality::fence() {
  acquire(to_acquire_);
  to_acquire_.clear();
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

void Causality::publish() {
  if (!is_checked_) return;
  auto global = own_global();
  global->published.join(knowledge_.seen);
  global->published.join(knowledge_.told);
  knowledge_.global = std::move(global);
  step();
}

// It passes on in any case what others have told.
Knowledge Causality::published() const {
  Knowledge passed;
  passed.global = knowledge_.global;
  if (passed.global) passed.seen = passed.global->published;
  return passed;
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
