// Declares what bulk copies have in common, tensor or not.
#pragma once

#include "runtime/emulator/instructions/mbarrier.h"
#include "runtime/emulator/instructions/reduce.h"

namespace ptxbuilder::runtime::emulator {

// One place that a load writes: a CTA of the cluster, the offset there, and the mbarrier that it signals.
struct Landing {
  Cta* cta;
  uint32_t offset;
  Mbarrier* barrier;
  uint32_t phase;
};

// Checks and records what is written there before the barrier's phase completes, by the async proxy or not.
// Reductions of one phase may meet in a word, in any order: each counts as knowing of the others.
void touch_landing(Warp& w, const Landing& l, uint32_t bytes, bool async, bool reduces, const char* what);

// Landings of a load to `destination` that signals the mbarrier at `barrier`, in each CTA of `mask`, or where
// the addresses say when it is 0. Checks, records and announces them: they hold until finish_load. Loads that
// reduce may meet each other.
std::vector<Landing> begin_load(Warp& w, uint64_t destination, uint64_t barrier, uint32_t mask,
                                uint32_t bytes, uint32_t align, int lane, SignalledBy by,
                                bool reduces = false);
void finish_load(Warp& w, const std::vector<Landing>& landings, uint32_t bytes);

// Tells the checks of what a load reads in global memory until its mbarrier's phase completes, and of what a
// store or a reduction writes there until its bulk group is done.
void touch_source(Warp& w, const std::vector<Landing>& landings, Address from, uint32_t bytes);
void touch_target(Warp& w, Address to, uint32_t bytes, int lane, bool reduces, StoredBytes values);

// Says when a copy to global memory may go on that is decoded: one that reduces adds by add_in_turn().
void adds_in_turn(Decode& d, bool reduces);
// Adds to [to, to + bytes) of global memory now, or when the cluster has its turn.
void add_in_turn(Warp& w, Address to, uint64_t bytes, std::function<void()> add);

// A copy out of shared memory in the thread's open bulk group: `take` reads the source, then `give` writes
// what it took. Each happens at a later time of its own.
void post_store(Warp& w, int lane, Cta& source, std::function<void()> take, std::function<void()> give);
// The deed that such a copy is, for the checks on its source.
Access store_access(Warp& w, int lane);

}  // namespace ptxbuilder::runtime::emulator
