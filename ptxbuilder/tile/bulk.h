// Emits copies of contiguous elements between a tile and global memory, without a tensor map.
#pragma once

#include "ptxbuilder/tile/tma.h"

namespace ptxbuilder {

// PTX ISA, cp.async.bulk: as many contiguous elements as a view has, from element `start` on, without a
// tensor map. The view says the rest, as for tma_load in tile/tma.h; CTAs that share a load fetch equal
// parts of its bytes. It lies in one piece, without swizzle, and has a multiple of 16 bytes, below 1 MiB; so
// does what begins at `start`. Throws Error where the host knows better, and when the types differ.
template <class T>
void bulk_load(const LoadView& to, gptr<T> from, u32 start, Where where = Where::here());
template <class T>
void bulk_store(gptr<T> to, u32 start, const CopyView& from, Where where = Where::here());
// PTX ISA, cp.reduce.async.bulk: each element joins the one that is there, as in tma_reduce.
template <class T>
void bulk_reduce(CopyReduction reduction, gptr<T> to, u32 start, const CopyView& from,
                 Where where = Where::here());

namespace detail {
void bulk_load(const LoadView& to, gmem from, DType type, u32 start);
void bulk_store(std::optional<CopyReduction> reduction, gmem to, DType type, u32 start, const CopyView& from);
}  // namespace detail

template <class T>
void bulk_load(const LoadView& to, gptr<T> from, u32 start, Where where) {
  AtLine line(where);
  detail::bulk_load(to, from, T::dtype, start);
}
template <class T>
void bulk_store(gptr<T> to, u32 start, const CopyView& from, Where where) {
  AtLine line(where);
  detail::bulk_store(std::nullopt, to, T::dtype, start, from);
}
template <class T>
void bulk_reduce(CopyReduction reduction, gptr<T> to, u32 start, const CopyView& from, Where where) {
  AtLine line(where);
  detail::bulk_store(reduction, to, T::dtype, start, from);
}

}  // namespace ptxbuilder
