#include "runtime/emulator/machine/clock.h"

namespace ptxbuilder::runtime::emulator {

bool GlobalKnowledge::covers(const GlobalKnowledge& other) const {
  if (settled < other.settled || !fenced.covers(other.fenced)) return false;
  for (size_t scope = 0; scope < published.size(); ++scope)
    if (other.published[scope] && published[scope] != other.published[scope]) return false;
  auto at = others.begin();
  for (const auto& [cluster, theirs] : other.others) {
    while (at != others.end() && at->first < cluster) ++at;
    if (at == others.end() || at->first != cluster) return false;
    const Remote& mine = *at->second;
    if (&mine != theirs.get() && !(mine.seen.covers(theirs->seen) && mine.fenced.covers(theirs->fenced)))
      return false;
  }
  return true;
}

GlobalKnowledge::Pointer GlobalKnowledge::join(const Pointer& a, const Pointer& b) {
  if (!b || a == b) return a;
  if (!a) return b;
  if (a->covers(*b)) return a;  // for example if a warp polls a word that has not changed
  auto both = std::make_shared<GlobalKnowledge>(*a);
  both->fenced.join(b->fenced);
  both->settled = std::max(both->settled, b->settled);
  for (size_t scope = 0; scope < both->published.size(); ++scope) {
    std::shared_ptr<const Published>& mine = both->published[scope];
    const std::shared_ptr<const Published>& theirs = b->published[scope];
    if (!theirs || mine == theirs) continue;
    if (!mine) {
      mine = theirs;
      continue;
    }
    auto joined = std::make_shared<Published>(*mine);
    joined->seen.join(theirs->seen);
    joined->global = join(joined->global, theirs->global);
    mine = std::move(joined);
  }
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
