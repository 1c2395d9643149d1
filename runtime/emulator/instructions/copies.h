// Functions that bulk copies share, whether they copy tensors or not.
#pragma once

#include "runtime/emulator/instructions/mbarrier.h"
#include "runtime/emulator/instructions/reduce.h"

namespace ptxbuilder::runtime::emulator {

// One destination of a load: a CTA of the cluster, the offset in its shared memory, and the mbarrier that the
// load signals.
struct Landing {
  Cta* cta;
  uint32_t offset;
  Mbarrier* barrier;
  uint32_t phase;
};

// Checks and records the write, which happens before the mbarrier's phase completes. It is a write through
// the async proxy if `async` is true. Reductions of one phase may access the same word in any order, so each
// counts as ordered after the others.
void touch_landing(Warp& w, const Landing& l, uint32_t bytes, bool async, bool reduces, const char* what);

// Returns the landings of a load to `destination` that signals the mbarrier at `barrier`. The load writes to
// these addresses in each CTA of `mask`, or to the addresses themselves if `mask` is 0. Checks, records and
// announces the landings, which remain valid until finish_load(). Loads that reduce may overlap each other.
std::vector<Landing> begin_load(Warp& w, uint64_t destination, uint64_t barrier, uint32_t mask,
                                uint32_t bytes, uint32_t align, int lane, SignalledBy by,
                                bool reduces = false);
void finish_load(Warp& w, const std::vector<Landing>& landings, uint32_t bytes);

// Report accesses to global memory to the checks. touch_source() reports what a load reads until its
// mbarrier's phase completes, and touch_target() what a store or reduction writes until its bulk group is
// done.
void touch_source(Warp& w, const std::vector<Landing>& landings, Address from, uint32_t bytes);
void touch_target(Warp& w, Address to, uint32_t bytes, int lane, bool reduces, StoredBytes values);

// Sets when a decoded copy to global memory may execute. A copy that reduces must call add_in_turn().
void adds_in_turn(Decode& d, bool reduces);
// Adds to [to, to + bytes) of global memory, either now or when the cluster has its turn.
void add_in_turn(Warp& w, Address to, uint64_t bytes, std::function<void()> add);

// Starts a copy from shared memory in the thread's open bulk group. `take` reads the source, and `give`
// writes the data later. Both are called at times that the schedule chooses.
void post_store(Warp& w, int lane, Cta& source, std::function<void()> take, std::function<void()> give);
// Returns the access of a copy that post_store() starts next, for the checks of its source.
Access store_access(Warp& w, int lane);

}  // namespace ptxbuilder::runtime::emulator
