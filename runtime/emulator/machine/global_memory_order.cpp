#include "runtime/emulator/machine/global_memory_order.h"

#include <algorithm>

namespace ptxbuilder::runtime::emulator {

struct PassedOn {
  // The knowledge that releases by one CTA with one scope have passed on.
  struct Near {
    Party by;
    Scope scope;
    Knowledge knowledge;
  };
  std::vector<std::shared_ptr<Near>> near;  // copies share the elements; a change replaces an element
  // The knowledge that releases with GPU scope have passed on to the device's other clusters, or that
  // releases with system scope have passed on to all clusters.
  struct Far {
    uint32_t device;
    Scope scope;
    GlobalKnowledge::Pointer knowledge;
  };
  std::vector<Far> far;
};

void release(PassedOnPointer& passed, const Party& who, Scope scope, const Knowledge& k) {
  // The object is changed in place unless an older value of the word also refers to it.
  std::shared_ptr<PassedOn> word = passed.use_count() == 1 ? std::const_pointer_cast<PassedOn>(passed)
                                   : passed                ? std::make_shared<PassedOn>(*passed)
                                                           : std::make_shared<PassedOn>();
  auto at = std::ranges::find_if(word->near,
                                 [&](const auto& p) { return p->by.cta == who.cta && p->scope == scope; });
  if (at == word->near.end())
    word->near.push_back(std::make_shared<PassedOn::Near>(PassedOn::Near{who, scope, k}));
  else {
    if (at->use_count() > 1) *at = std::make_shared<PassedOn::Near>(**at);
    (*at)->knowledge.join(k);
  }
  if (scope >= Scope::gpu) {
    auto remote = std::make_shared<GlobalKnowledge::Remote>();
    remote->seen = k.seen;
    remote->seen.join(k.told);
    auto own = std::make_shared<GlobalKnowledge>();
    if (k.global) {
      remote->fenced = k.global->fenced;
      own->others = k.global->others;
      own->settled = k.global->settled;
    }
    own->others[who.cluster] = std::move(remote);
    const auto same = std::ranges::find_if(
        word->far, [&](const auto& f) { return f.device == who.device && f.scope == scope; });
    if (same == word->far.end())
      word->far.push_back({who.device, scope, own});
    else
      same->knowledge = GlobalKnowledge::join(same->knowledge, own);
  }
  passed = std::move(word);
}

void acquire(const PassedOn& passed, const Party& who, Scope scope, Knowledge& k) {
  for (const auto& p : passed.near) {
    const bool both_reach = p->by.cta == who.cta || (p->by.cluster == who.cluster &&
                                                     p->scope >= Scope::cluster && scope >= Scope::cluster);
    if (both_reach) k.join(p->knowledge);
  }
  if (scope < Scope::gpu) return;
  bool has_met = false;
  for (const auto& [device, of, knowledge] : passed.far)
    if (device == who.device || (of == Scope::sys && scope == Scope::sys)) {
      k.global = GlobalKnowledge::join(k.global, knowledge);
      has_met = true;
    }
  if (!has_met) return;
  // The warp learns what other clusters know about its own cluster.
  if (const auto own = k.global->others.find(who.cluster); own != k.global->others.end())
    k.seen.join(own->second->seen);
}

void GlobalMemoryOrder::release(uint64_t address, const Party& who, Scope scope, const Knowledge& k) {
  const std::lock_guard lock(mutex_);
  emulator::release(words_[address / 4], who, scope, k);
}

PassedOnPointer GlobalMemoryOrder::passed(uint64_t address) const {
  const std::lock_guard lock(mutex_);
  const auto found = words_.find(address / 4);
  return found == words_.end() ? nullptr : found->second;
}

}  // namespace ptxbuilder::runtime::emulator
