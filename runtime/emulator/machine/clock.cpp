#include "runtime/emulator/machine/clock.h"

namespace ptxbuilder::runtime::emulator {

GlobalKnowledge::Pointer GlobalKnowledge::join(const Pointer& a, const Pointer& b) {
  if (!b || a == b) return a;
  if (!a) return b;
  auto both = std::make_shared<GlobalKnowledge>(*a);
  both->fenced.join(b->fenced);
  both->published.join(b->published);
  for (const auto& [cluster, theirs] : b->others) {
    std::shared_ptr<const Remote>& mine = both->others[cluster];
    if (mine == theirs) continue;
    if (!mine || (theirs->seen.covers(mine->seen) && theirs->fenced.covers(mine->fenced))) {
      mine = theirs;
      continue;
    }
    if (mine->seen.covers(theirs->seen) && mine->fenced.covers(theirs->fenced)) continue;
    auto joined = std::make_shared<Remote>(*mine);
    joined->seen.join(theirs->seen);
    joined->fenced.join(theirs->fenced);
    mine = std::move(joined);
  }
  return both;
}

}  // namespace ptxbuilder::runtime::emulator
