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

// Checks and records the write before the barrier's phase completes, by the async proxy or not. Reductions of
// one phase may access one word, in any order: each counts as knowing of the others.
void touch_landing(Warp& w, const Landing& l, uint32_t bytes, bool async, bool reduces, const char* what);

// Returns the landings of a load to `destination` that signals the mbarrier at `barrier`, in each CTA of
// `mask`, or at the addresses themselves if `mask` is 0. Checks, records and announces the landings, which
// are valid until finish_load. Loads that reduce may overlap each other.
std::vector<Landing> begin_load(Warp& w, uint64_t destination, uint64_t barrier, uint32_t mask,
                                uint32_t bytes, uint32_t align, int lane, SignalledBy by,
                                bool reduces = false);
void finish_load(Warp& w, const std::vector<Landing>& landings, uint32_t bytes);

// Report to the checks what a load reads in global memory until its mbarrier's phase completes, and what a
// store or a reduction writes there until its bulk group is done.
void touch_source(Warp& w, const std::vector<Landing>& landings, Address from, uint32_t bytes);
void touch_target(Warp& w, Address to, uint32_t bytes, int lane, bool reduces, StoredBytes values);

// Sets when a decoded copy to global memory may go on: a copy that reduces calls add_in_turn().
void adds_in_turn(Decode& d, bool reduces);
// Adds to [to, to + bytes) of global memory, either now or when the cluster has its turn.
void add_in_turn(Warp& w, Address to, uint64_t bytes, std::function<void()> add);

// Starts a copy out of shared memory in the thread's open bulk group: `take` reads the source, then `give`
// writes what was read. Each happens at a later time of its own.
void post_store(Warp& w, int lane, Cta& source, std::function<void()> take, std::function<void()> give);
// Returns the access that such a copy is, for the checks of its source.
Access store_access(Warp& w, int lane);

}  // namespace ptxbuilder::runtime::emulator
