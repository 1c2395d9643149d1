// Operations on mbarrier objects, for the instructions and the copies that signal them.
#pragma once

#include "runtime/emulator/machine/machine.h"

namespace ptxbuilder::runtime::emulator {

// Returns the mbarrier at a shared address, or reports why no usable one is there.
Mbarrier& mbarrier_at(Warp& w, uint64_t address, int lane, SignalledBy by = SignalledBy::thread);
// Does the same for a barrier that must be the CTA's own.
Mbarrier& own_mbarrier_at(Warp& w, uint64_t address, int lane);

// Performs one or more arrivals by thread `lane`. With `releases`, the waiters learn what the thread knows.
void arrive(Warp& w, Mbarrier& m, uint32_t count, bool releases, int lane);

void expect_tx(Warp& w, Mbarrier& m, uint32_t bytes, int lane);

// Announces an asynchronous operation that will complete `bytes` on the barrier's current phase; finish_tx
// completes them, on behalf of the warp's instruction.
void begin_tx(Mbarrier& m, uint32_t bytes);
void finish_tx(Warp& w, Mbarrier& m, uint32_t bytes, uint32_t phase);

// Ends the phase if nothing is missing any more.
void try_complete(Warp& w, Mbarrier& m);

}  // namespace ptxbuilder::runtime::emulator
