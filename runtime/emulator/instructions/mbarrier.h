// Operations on mbarrier objects, for the instructions and the copies that signal them.
#pragma once

#include "runtime/emulator/machine/machine.h"

namespace ptxbuilder::runtime::emulator {

// The mbarrier at a shared address, or a report that says why there is none to use.
Mbarrier& mbarrier_at(Warp& w, uint64_t address, int lane, SignalledBy by = SignalledBy::thread);
// The same, which has to be the CTA's own.
Mbarrier& own_mbarrier_at(Warp& w, uint64_t address, int lane);

// One arrival or more, by thread `lane`. With `releases`, the waiters learn what the thread knows.
void arrive(Warp& w, Mbarrier& m, uint32_t count, bool releases, int lane);

void expect_tx(Warp& w, Mbarrier& m, uint32_t bytes, int lane);

// Announces an asynchronous operation that will complete `bytes` on the barrier's current phase; finish_tx is
// that completion, by the warp's instruction.
void begin_tx(Mbarrier& m, uint32_t bytes);
void finish_tx(Warp& w, Mbarrier& m, uint32_t bytes, uint32_t phase);

// Ends the phase when nothing is missing any more.
void try_complete(Warp& w, Mbarrier& m);

}  // namespace ptxbuilder::runtime::emulator
