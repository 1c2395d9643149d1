// Emits TMA copies of slices of a tensor.
#pragma once

#include "ptxbuilder/plan/tensor_copy.h"
#include "ptxbuilder/tile/shared_place.h"

namespace ptxbuilder {

// Selects `length` elements along one dimension, from a start that the host or the device knows.
struct Slice {
  u32 start;
  int64_t length;
};
inline Slice ds(u32 start, int64_t length) { return {start, length}; }
inline Slice ds(detail::HostInteger auto start, int64_t length, Where where = Where::here()) {
  AtLine line(where);
  return {u32(start), length};
}

// The part of a tile in shared memory that two slices select: its address, and its layout in the form that a
// TiledCopy takes. Starts must be multiples of the lengths; throws Error if the host knows that one is not.
// Also throws Error if the lengths do not divide the tile, or if the swizzle's pattern would not begin anew
// in each part.
struct SharedSlice {
  smem address;
  ComposedLayout memory;
  std::optional<ViewRecord> view = {};   // for a part of a tile: its name in the kernel's record
  std::optional<TileView> filling = {};  // for a part of a producer's stage: the tile
  SharedPlace place() const { return {address, view, filling}; }
};
SharedSlice shared_slice(const TileView& tile, Slice rows, Slice cols, Where where = Where::here());
SharedSlice shared_slice(DType type, const ComposedLayout& memory, smem start, Slice rows, Slice cols,
                         Where where = Where::here());

// Loads slices of a tensor into a view with the same number of elements. There is one slice for each
// dimension, outermost first; the rows of the view are all dimensions but the last. One thread calls this.
// The view determines the other properties, as in tile/tma.h: the barrier that counts copy.bytes(), the CTAs
// that share the load by multicast (each fetches an equal number of boxes), the L2 hint, the threads that
// make the copy, and the fill outside the tensor. The tensor map's recipe follows from the copy; the launch
// gives the map copy.map_tensor(). The start along a transformed dimension must be a multiple of its tile,
// and the start along a dropped dimension must be 0; throws Error if the host knows that this does not hold.
// Also throws Error if the lengths differ from the copy's, if the view has another type or extent, or if
// another copy uses the map with another box or fill.
void tma_load(const TensorCopy& copy, const LoadView& to, TensorMap from, const std::vector<Slice>& slices,
              Where where = Where::here());
// Store slices, or combine their elements with those in memory. tile/tma.h states what must happen before and
// after, and which reductions exist.
void tma_store(const TensorCopy& copy, TensorMap to, const std::vector<Slice>& slices, const CopyView& from,
               Where where = Where::here());
void tma_reduce(CopyReduction reduction, const TensorCopy& copy, TensorMap to,
                const std::vector<Slice>& slices, const CopyView& from, Where where = Where::here());

// Copy from and to an address, for memory that is not a tile. The address must be aligned to the swizzle's
// pattern (8 spans, at least 128 bytes). prove() does not check these copies. Only threads for which
// `condition` is true make the copy; without a condition, all calling threads do.
void tma_load(const TensorCopy& copy, smem to, TensorMap from, const std::vector<Slice>& slices, smem barrier,
              std::optional<pred> condition = std::nullopt, Where where = Where::here());
void tma_store(const TensorCopy& copy, TensorMap to, const std::vector<Slice>& slices, smem from,
               std::optional<pred> condition = std::nullopt, Where where = Where::here());

}  // namespace ptxbuilder
