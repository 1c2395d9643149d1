// Orders accesses to shared memory by threads that write it, TMA that reads it, and threads that write it
// again.
#pragma once

#include "ptxbuilder/tile/bulk.h"
#include "ptxbuilder/tile/tma_tensor.h"

namespace ptxbuilder {

// Makes what the threads of this warpgroup have written to shared memory visible to TMA and wgmma, which
// read through the async proxy: each thread executes a fence (PTX ISA, fence.proxy.async), then they meet
// at a barrier. All threads of the warpgroup call it; outside roles, all threads of the CTA.
void commit_smem(Where where = Where::here());

// A wait for a store waits either until TMA has read shared memory, which may then be written again, or until
// the store has written global memory, which a thread may then read.
enum class StoreWait : uint8_t { read, written };

// Waits until at most `pending` (0 to 63) of the store groups that the storing thread of this warpgroup has
// committed with cp_async_bulk_commit_group are unfinished. All threads of the warpgroup call it and go on
// together; outside roles, all threads of the CTA.
void wait_stores(int pending, StoreWait until = StoreWait::written, Where where = Where::here());

namespace detail {

// True in the one thread of a warpgroup that issues, commits and waits for its stores; outside
// roles, in one thread of the CTA.
pred issues_stores();
// Makes the end of the role wait until its stores have read shared memory, which must stay valid until then.
void end_role_after_stores();
// Calls commit_smem(); then that thread issues and commits `stores`. The end of the role waits for them.
void store_group(const std::function<void()>& stores);
// Makes that thread wait until at most `pending` of its groups have not been read.
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
// Store slices of a tensor, as tma_store (tma_tensor.h) does, and contiguous elements, as bulk_store does.
inline void store_out(const TensorCopy& copy, TensorMap to, const std::vector<Slice>& slices,
                      const CopyView& from, Where where = Where::here()) {
  AtLine line(where);
  detail::store_group([&] { tma_store(copy, to, slices, from); });
}
template <class T>
void store_out(gptr<T> to, u32 start, const CopyView& from, Where where = Where::here()) {
  AtLine line(where);
  detail::store_group([&] { bulk_store(to, start, from); });
}

// Like store_out(), but each element is combined with the one in memory, as in tma_reduce and bulk_reduce.
//   reduce_out(CopyReduction::add, D, sOut[0], col, row);
inline void reduce_out(CopyReduction reduction, detail::MapArgument to, const CopyView& from,
                       const std::vector<u32>& coordinates) {
  AtLine line(to.where);
  detail::store_group([&] { tma_reduce(reduction, to, from, coordinates); });
}
template <detail::Coordinate... C>
void reduce_out(CopyReduction reduction, detail::MapArgument to, const CopyView& from, C... coordinates) {
  reduce_out(reduction, to, from, std::vector<u32>{detail::coordinate(coordinates, to.where)...});
}
inline void reduce_out(CopyReduction reduction, const TensorCopy& copy, TensorMap to,
                       const std::vector<Slice>& slices, const CopyView& from, Where where = Where::here()) {
  AtLine line(where);
  detail::store_group([&] { tma_reduce(reduction, copy, to, slices, from); });
}
template <class T>
void reduce_out(CopyReduction reduction, gptr<T> to, u32 start, const CopyView& from,
                Where where = Where::here()) {
  AtLine line(where);
  detail::store_group([&] { bulk_reduce(reduction, to, start, from); });
}

}  // namespace ptxbuilder
