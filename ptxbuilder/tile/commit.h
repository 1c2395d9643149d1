// What stands between threads that write shared memory, TMA that reads it, and threads that write it again.
#pragma once

#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder {

// Makes what the threads of this warpgroup have written to shared memory there for TMA and wgmma, which read
// through the async proxy: a fence by each of them (PTX ISA, fence.proxy.async) and a barrier. All threads of
// the warpgroup call it; outside roles, of the CTA.
void commit_smem(Where where = Where::here());

// Until when to wait for a store: until TMA has read shared memory, which may then be written again, or until
// global memory has been written, as who reads it there, or ends, needs it.
enum class StoreWait : uint8_t { read, written };

// Waits until at most `pending` (0 to 63) of the groups of stores that a thread of this warpgroup has
// committed by cp_async_bulk_commit_group are unfinished. All threads of the warpgroup call it and go on
// together; outside roles, of the CTA.
void wait_stores(int pending, StoreWait until = StoreWait::written, Where where = Where::here());

}  // namespace ptxbuilder
