// Operations on mbarriers, for instructions and for copies that signal mbarriers.
#pragma once

#include "runtime/emulator/machine/machine.h"

namespace ptxbuilder::runtime::emulator {

// Returns the mbarrier at a shared address, or reports why there is no usable mbarrier.
Mbarrier& mbarrier_at(Warp& w, uint64_t address, int lane, SignalledBy by = SignalledBy::thread);
// Like mbarrier_at(), but the mbarrier must belong to the CTA.
Mbarrier& own_mbarrier_at(Warp& w, uint64_t address, int lane);

// Performs `count` arrivals by thread `lane`. If `releases` is true, waiting threads learn what the thread
// knows.
void arrive(Warp& w, Mbarrier& m, uint32_t count, bool releases, int lane);

void expect_tx(Warp& w, Mbarrier& m, uint32_t bytes, int lane);

// begin_tx() announces an asynchronous operation that will complete `bytes` bytes in the mbarrier's current
// phase. finish_tx() completes them on behalf of the warp's instruction.
void begin_tx(Mbarrier& m, uint32_t bytes);
void finish_tx(Warp& w, Mbarrier& m, uint32_t bytes, uint32_t phase);

// Ends the phase if no arrivals and no bytes are missing.
void try_complete(Warp& w, Mbarrier& m);

}  // namespace ptxbuilder::runtime::emulator
