// Orders accesses to shared memory: threads write it, TMA reads it, and threads write it again.
#pragma once

#include "ptxbuilder/tile/bulk.h"
#include "ptxbuilder/tile/tma_tensor.h"

namespace ptxbuilder {

// Makes data that the threads of this warpgroup have written to shared memory visible to TMA and wgmma, which
// read through the async proxy: each thread executes a fence (PTX ISA, fence.proxy.async), and then the
// threads meet at a barrier. All threads of the warpgroup call this; outside roles, all threads of the CTA
// do.
void commit_smem(Where where = Where::here());

// Determines what a wait for a store waits for: `read`, TMA has read shared memory, which may be written
// again; `written`, the store has written global memory, which a thread may read.
enum class StoreWait : uint8_t { read, written };

// Waits until at most `pending` (0 to 63) store groups that the storing thread of this warpgroup committed
// with cp_async_bulk_commit_group are unfinished. All threads of the warpgroup call this, and continue
// together; outside roles, all threads of the CTA do.
void wait_stores(int pending, StoreWait until = StoreWait::written, Where where = Where::here());

namespace detail {

// Returns true in the one thread of a warpgroup that issues and commits its stores and waits for them;
// outside roles, in one thread of the CTA.
pred issues_stores();
// Makes the end of the role wait until its stores have read shared memory, which must remain valid until
// then.
void end_role_after_stores();
// Calls commit_smem(); then the storing thread issues and commits `stores`. The end of the role waits for
// them.
void store_group(const std::function<void()>& stores);
// Makes the storing thread wait until TMA has read the shared memory of all but `pending` groups.
void wait_stores_read(int pending);

}  // namespace detail

// Stores a view of a tile that the threads of this warpgroup have written: calls commit_smem(), then one
// thread stores the view by TMA to the box at `coordinates`, as tma_store does. All threads of the warpgroup
// call this; outside roles, all threads of the CTA do. When this returns, TMA may still be reading the view,
// so call wait_stores(0, StoreWait::read) before you write to it again. The end of the role waits too.
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
// Store slices of a tensor, as tma_store (tma_tensor.h) does, or contiguous elements, as bulk_store does.
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

// Works like store_out(), but combines each element with the one in memory, as in tma_reduce and bulk_reduce.
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
