// Orders the accesses of threads and TMA to shared memory, so that TMA reads what threads have written, and
// threads overwrite the memory only after TMA has read it.
#pragma once

#include "ptxbuilder/tile/bulk.h"
#include "ptxbuilder/tile/tma_tensor.h"

namespace ptxbuilder {

// Makes data that the threads of this warpgroup have written to shared memory visible to TMA and wgmma, which
// read through the async proxy. Each thread executes a fence (PTX ISA, fence.proxy.async), and then the
// threads meet at a barrier. All threads of the warpgroup or, outside roles, of the CTA must call this.
void commit_smem(Where where = Where::here());

// Determines when a wait for a store ends. With `read`, the wait ends when TMA has read shared memory, so
// that threads may write it again. With `written`, it ends when the store has written global memory, so that
// a thread may read it.
enum class StoreWait : uint8_t { read, written };

// Waits until at most `pending` (0 to 63) store groups are unfinished. The function counts only groups that
// this warpgroup's storing thread committed with cp_async_bulk_commit_group. All threads of the warpgroup or,
// outside roles, of the CTA must call this, and continue together.
void wait_stores(int pending, StoreWait until = StoreWait::written, Where where = Where::here());

namespace detail {

// Returns true in only one thread of this warpgroup or, outside roles, of the CTA. This thread issues and
// commits stores, and waits for them.
pred issues_stores();
// Makes the role wait at its end until its stores have read shared memory, because a store may still read the
// memory until then.
void end_role_after_stores();
// Calls commit_smem(), and makes the storing thread issue and commit `stores`. The role waits for these
// stores at its end.
void store_group(const std::function<void()>& stores);
// Makes the storing thread wait until TMA has read the shared memory of all but `pending` groups.
void wait_stores_read(int pending);

}  // namespace detail

// Stores a view of a tile that the threads of this warpgroup have written. Calls commit_smem(); then one
// thread stores the view to the box at `coordinates`, as tma_store does. All threads of the warpgroup or,
// outside roles, of the CTA must call this. When the call returns, TMA may still be reading the view, so call
// wait_stores(0, StoreWait::read) before you write to the view again. The role always waits for the store at
// its end.
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
// Store to slices of a tensor, as tma_store (tma_tensor.h) does, or to contiguous elements, as bulk_store
// does.
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

// Works like store_out(), but combines each element with the corresponding element in memory, as tma_reduce
// and bulk_reduce do.
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
