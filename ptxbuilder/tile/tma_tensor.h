// Emits copies of slices: tiles of a tensor by TMA.
#pragma once

#include "ptxbuilder/plan/tensor_copy.h"
#include "ptxbuilder/tile/shared_place.h"

namespace ptxbuilder {

// `length` elements along one dimension, from a start that the host or the device knows.
struct Slice {
  u32 start;
  int64_t length;
};
inline Slice ds(u32 start, int64_t length) { return {start, length}; }
inline Slice ds(detail::HostInteger auto start, int64_t length, Where where = Where::here()) {
  AtLine line(where);
  return {u32(start), length};
}

// The part of a tile in shared memory that begins at two slices' starts: its address, and its own layout, as
// a TiledCopy takes it. Starts are multiples of the lengths: Error where the host knows better. Throws Error
// when the lengths do not divide the tile, or the swizzle's pattern would not start anew with each part.
struct SharedSlice {
  smem address;
  ComposedLayout memory;
  std::optional<ViewRecord> view = {};  // of a tile: what the kernel's record calls it
  SharedPlace place() const { return {address, view}; }
};
SharedSlice shared_slice(const TileView& tile, Slice rows, Slice cols, Where where = Where::here());
SharedSlice shared_slice(DType type, const ComposedLayout& memory, smem start, Slice rows, Slice cols,
                         Where where = Where::here());

// Loads the slices of a tensor, one for each of its dimensions, outermost first, to a view of as many
// elements: its rows are all dimensions but the last. One thread calls it. The view says the rest, as in
// tile/tma.h: the barrier on which copy.bytes() complete, the CTAs that share the load by multicast, each of
// which fetches an equal number of boxes, the hint to L2, the threads that do it, and what is outside. The
// tensor map's recipe follows from the copy; the launch gives it copy.map_tensor(). A transformed dimension
// begins at a multiple of its tile, and one that is left out at 0: Error where the host knows better. Throws
// Error when the lengths are not the copy's, the view has another type or extent, or another copy uses the
// map with another box or fill.
void tma_load(const TensorCopy& copy, const LoadView& to, TensorMap from, const std::vector<Slice>& slices,
              Where where = Where::here());
// The reverse, and the reverse where each element joins the one that is there; see tile/tma.h for what
// surrounds it, and for reductions.
void tma_store(const TensorCopy& copy, TensorMap to, const std::vector<Slice>& slices, const CopyView& from,
               Where where = Where::here());
void tma_reduce(CopyReduction reduction, const TensorCopy& copy, TensorMap to,
                const std::vector<Slice>& slices, const CopyView& from, Where where = Where::here());

// The same from and to an address, which is aligned to the swizzle's pattern (8 spans, at least 128 bytes),
// for what is no tile of its own. Nothing of it is proved. Threads do it where `condition` holds, or all that
// call it.
void tma_load(const TensorCopy& copy, smem to, TensorMap from, const std::vector<Slice>& slices, smem barrier,
              std::optional<pred> condition = std::nullopt, Where where = Where::here());
void tma_store(const TensorCopy& copy, TensorMap to, const std::vector<Slice>& slices, smem from,
               std::optional<pred> condition = std::nullopt, Where where = Where::here());

}  // namespace ptxbuilder
