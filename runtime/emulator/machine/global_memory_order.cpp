#include "runtime/emulator/machine/global_memory_order.h"

#include <algorithm>

namespace ptxbuilder::runtime::emulator {

void GlobalMemoryOrder::release(uint64_t address, const Party& who, Scope scope, const Knowledge& k) {
  const std::lock_guard lock(mutex_);
  Word& word = words_[address / 4];
  auto at = std::ranges::find_if(word.passed,
                                 [&](const Passed& p) { return p.by.cta == who.cta && p.scope == scope; });
  if (at == word.passed.end()) at = word.passed.insert(at, {who, scope, {}});
  at->knowledge.join(k);
  if (scope != Scope::gpu) return;
  auto remote = std::make_shared<GlobalKnowledge::Remote>();
  remote->seen = k.seen;
  remote->seen.join(k.told);
  if (k.global) remote->fenced = k.global->fenced;
  auto passed = std::make_shared<GlobalKnowledge>();
  if (k.global) passed->others = k.global->others;
  passed->others[who.cluster] = std::move(remote);
  word.to_all = GlobalKnowledge::join(word.to_all, passed);
}

void GlobalMemoryOrder::acquire(uint64_t address, const Party& who, Scope scope, Knowledge& k) {
  const std::lock_guard lock(mutex_);
  const auto found = words_.find(address / 4);
  if (found == words_.end()) return;
  for (const Passed& p : found->second.passed) {
    const bool both_reach = p.by.cta == who.cta || (p.by.cluster == who.cluster &&
                                                    p.scope >= Scope::cluster && scope >= Scope::cluster);
    if (both_reach) k.join(p.knowledge);
  }
  if (scope != Scope::gpu || !found->second.to_all) return;
  k.global = GlobalKnowledge::join(k.global, found->second.to_all);
  // The warp knows of its own cluster what others know of it.
  if (const auto own = k.global->others.find(who.cluster); own != k.global->others.end())
    k.seen.join(own->second->seen);
}

}  // namespace ptxbuilder::runtime::emulator
