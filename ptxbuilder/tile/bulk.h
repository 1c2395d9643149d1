// Emits copies of contiguous elements between a tile and global memory, without a tensor map.
#pragma once

#include "ptxbuilder/tile/tma.h"

namespace ptxbuilder {

// Copy contiguous elements between the view and global memory, beginning at element `start` (PTX ISA,
// cp.async.bulk). The view determines the number of elements and the other properties of the copy, as for
// tma_load in tile/tma.h. If CTAs share a load, each CTA fetches an equal part of the bytes. The view must be
// contiguous and without a swizzle, and its size must be a multiple of 16 bytes and less than 1 MiB. Element
// `start` must be aligned to 16 bytes. Both functions throw Error if the types differ, or if it is known on
// the host that one of these conditions is violated.
template <class T>
void bulk_load(const LoadView& to, gptr<T> from, u32 start, Where where = Where::here());
template <class T>
void bulk_store(gptr<T> to, u32 start, const CopyView& from, Where where = Where::here());
// Combines each element of the view with the corresponding element in global memory, as tma_reduce does (PTX
// ISA, cp.reduce.async.bulk).
template <class T>
void bulk_reduce(CopyReduction reduction, gptr<T> to, u32 start, const CopyView& from,
                 Where where = Where::here());

// A matrix in global memory whose rows are selected by number. The matrix has `count` rows, which are
// `stride` elements apart.
template <class T>
struct IndexedRows {
  gptr<T> first;
  u32 stride, count;
};
// Maps a row of a view to the number of a row of the matrix. The function may load this number from memory.
using RowIndex = std::function<u32(u32 row)>;

// Loads selected rows of the matrix into the rows of a view, beginning at `column` of the matrix. Each row is
// copied separately. One thread calls this function, and a pipeline counts the call as one load of the view.
// A row number outside the matrix selects the last row. As for bulk_load(), the view must be contiguous, and
// columns and row starts must be aligned. CTAs cannot share the load.
template <class T>
void bulk_gather(const LoadView& to, const IndexedRows<T>& from, const RowIndex& index, u32 column = 0,
                 Where where = Where::here());
// Stores the rows of a view to selected rows of the matrix; a row whose number is outside the matrix is
// dropped. If two rows have the same number, the matrix may retain either of them.
template <class T>
void bulk_scatter(const IndexedRows<T>& to, const CopyView& from, const RowIndex& index, u32 column = 0,
                  Where where = Where::here());
// Works like bulk_scatter(), but combines each element with the corresponding element in memory, as
// bulk_reduce() does. Rows with the same number are all combined.
template <class T>
void bulk_scatter_reduce(CopyReduction reduction, const IndexedRows<T>& to, const CopyView& from,
                         const RowIndex& index, u32 column = 0, Where where = Where::here());

namespace detail {
struct RowsByIndex {
  gmem first;
  DType type;
  u32 stride, count, column;
  const RowIndex& index;
};
void bulk_gather(const LoadView& to, const RowsByIndex& from);
void bulk_scatter(std::optional<CopyReduction> reduction, const RowsByIndex& to, const CopyView& from);
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
template <class T>
void bulk_gather(const LoadView& to, const IndexedRows<T>& from, const RowIndex& index, u32 column,
                 Where where) {
  AtLine line(where);
  detail::bulk_gather(to, {from.first, T::dtype, from.stride, from.count, column, index});
}
template <class T>
void bulk_scatter(const IndexedRows<T>& to, const CopyView& from, const RowIndex& index, u32 column,
                  Where where) {
  AtLine line(where);
  detail::bulk_scatter(std::nullopt, {to.first, T::dtype, to.stride, to.count, column, index}, from);
}
template <class T>
void bulk_scatter_reduce(CopyReduction reduction, const IndexedRows<T>& to, const CopyView& from,
                         const RowIndex& index, u32 column, Where where) {
  AtLine line(where);
  detail::bulk_scatter(reduction, {to.first, T::dtype, to.stride, to.count, column, index}, from);
}

}  // namespace ptxbuilder
