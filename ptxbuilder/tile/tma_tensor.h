// Emits TMA copies of slices of a tensor.
#pragma once

#include "ptxbuilder/plan/tensor_copy.h"
#include "ptxbuilder/tile/shared_place.h"

namespace ptxbuilder {

// Selects `length` elements along one dimension, beginning at `start`, which may be a host integer or a
// device value.
struct Slice {
  u32 start;
  int64_t length;
};
inline Slice ds(u32 start, int64_t length) { return {start, length}; }
inline Slice ds(detail::HostInteger auto start, int64_t length, Where where = Where::here()) {
  AtLine line(where);
  return {u32(start), length};
}

// The part of a tile in shared memory that two slices select. The part has an address, and a layout in the
// form that a TiledCopy accepts. shared_slice() returns a SharedSlice. The starts of the slices must be
// multiples of their lengths. shared_slice() throws Error if a start is known on the host not to be a
// multiple. It also throws Error if the lengths do not divide the tile, or if the swizzle's pattern would not
// begin anew in each part.
struct SharedSlice {
  smem address;
  ComposedLayout memory;
  std::optional<ViewRecord> view = {};   // for a part of a tile: the tile's view in the kernel's record
  std::optional<TileView> filling = {};  // for a part of a producer's stage: the stage's view
  SharedPlace place() const { return {address, view, filling}; }
};
SharedSlice shared_slice(const TileView& tile, Slice rows, Slice cols, Where where = Where::here());
SharedSlice shared_slice(DType type, const ComposedLayout& memory, smem start, Slice rows, Slice cols,
                         Where where = Where::here());

// Loads slices of a tensor into a view with the same number of elements. There is one slice for each
// dimension, outermost first. The last dimension runs along the columns of the view, and all other dimensions
// together run along its rows. One thread calls this function. The view determines the other properties, as
// in tile/tma.h: the barrier that counts copy.bytes(), the CTAs that share the load by multicast (each
// fetches an equal number of boxes), the L2 hint, the threads that make the copy, and the fill outside the
// tensor. The copy determines the tensor map's recipe. The launch passes copy.map_tensor() as the map's
// tensor. The start along a transformed dimension must be a multiple of the tile along this dimension, and
// the start along a dropped dimension must be 0. Throws Error if a start is known on the host to violate
// these rules. Also throws Error if the lengths differ from the lengths of the copy, if the view has another
// type or extent, or if another copy uses the map with another box or fill.
void tma_load(const TensorCopy& copy, const LoadView& to, TensorMap from, const std::vector<Slice>& slices,
              Where where = Where::here());
// Store a view to slices of a tensor, or combine its elements with those in memory. tile/tma.h describes the
// necessary fences and barriers, and the available reductions.
void tma_store(const TensorCopy& copy, TensorMap to, const std::vector<Slice>& slices, const CopyView& from,
               Where where = Where::here());
void tma_reduce(CopyReduction reduction, const TensorCopy& copy, TensorMap to,
                const std::vector<Slice>& slices, const CopyView& from, Where where = Where::here());

// Copy between slices of a tensor and an address, for shared memory that does not belong to a tile. The
// address must be aligned to the swizzle's pattern (8 spans, at least 128 bytes). prove() does not check
// these copies. If there is a `condition`, only threads for which it is true make the copy. Otherwise, all
// calling threads make the copy.
void tma_load(const TensorCopy& copy, smem to, TensorMap from, const std::vector<Slice>& slices, smem barrier,
              std::optional<pred> condition = std::nullopt, Where where = Where::here());
void tma_store(const TensorCopy& copy, TensorMap to, const std::vector<Slice>& slices, smem from,
               std::optional<pred> condition = std::nullopt, Where where = Where::here());

}  // namespace ptxbuilder
