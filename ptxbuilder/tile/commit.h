// What stands between threads that write shared memory, TMA that reads it, and threads that write it again.
#pragma once

#include "ptxbuilder/tile/tma.h"

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

namespace detail {

// The thread of a warpgroup that issues its stores, commits them and waits for them; outside roles, of the
// CTA.
pred issues_stores();
// commit_smem(), and what `stores` issues as a group of that thread, which the end of the role waits for.
void store_group(const std::function<void()>& stores);
// That thread waits until at most `pending` of its groups have not been read.
void wait_stores_read(int pending);

}  // namespace detail

// The way out of a tile that the threads of this warpgroup have written to a view: commit_smem(), and one of
// them stores it by TMA to the box at `coordinates`, as tma_store does. All threads of the warpgroup call it;
// outside roles, of the CTA. TMA may still read the view when it returns: who writes there next calls
// wait_stores(0, StoreWait::read), and the end of the role waits too.
//   store(sOut[0], x);
//   store_out(D, sOut[0], col, row);
inline void store_out(detail::MapArgument to, const CopyView& from, const std::vector<u32>& coordinates) {
  AtLine line(to.where);
  detail::store_group([&] { tma_store(to, from, coordinates); });
}
template <detail::Coordinate... C>
void store_out(detail::MapArgument to, const CopyView& from, C... coordinates) {
  store_out(to, from, std::vector<u32>{detail::coordinate(coordinates, to.where)...});
}

}  // namespace ptxbuilder
