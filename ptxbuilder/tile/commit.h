// Ordering between threads that write shared memory, TMA that reads it, and threads that write it again.
#pragma once

#include "ptxbuilder/tile/tma.h"

namespace ptxbuilder {

// Makes what the threads of this warpgroup have written to shared memory visible to TMA and wgmma, which
// read through the async proxy: each thread executes a fence (PTX ISA, fence.proxy.async), then they meet
// at a barrier. All threads of the warpgroup call it; outside roles, all threads of the CTA.
void commit_smem(Where where = Where::here());

// What a wait for a store waits for: that TMA has read shared memory, which may then be written again, or
// that global memory has been written, for a thread that reads it there or ends.
enum class StoreWait : uint8_t { read, written };

// Waits until at most `pending` (0 to 63) of the store groups that a thread of this warpgroup has committed
// by cp_async_bulk_commit_group are unfinished. All threads of the warpgroup call it and go on together;
// outside roles, all threads of the CTA.
void wait_stores(int pending, StoreWait until = StoreWait::written, Where where = Where::here());

namespace detail {

// True in the one thread of a warpgroup that issues, commits and waits for its stores; outside
// roles, in one thread of the CTA.
pred issues_stores();
// Calls commit_smem(), then issues and commits `stores` in that thread. The end of the role waits for them.
void store_group(const std::function<void()>& stores);
// That thread waits until at most `pending` of its groups have not been read.
void wait_stores_read(int pending);

}  // namespace detail

// Stores a tile that the threads of this warpgroup have written to a view: calls commit_smem(), then one
// thread stores the view by TMA to the box at `coordinates`, as tma_store does. All threads of the
// warpgroup call this; outside roles, all threads of the CTA. TMA may still read the view when it returns,
// so call wait_stores(0, StoreWait::read) before you write there again. The end of the role waits too.
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
