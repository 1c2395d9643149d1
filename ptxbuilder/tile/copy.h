// Copies of tiles between global and shared memory by TMA (PTX ISA, cp.async.bulk.tensor).
#pragma once

#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder {

namespace detail {

// A destination together with the caller's line, which a variadic function cannot take last.
struct Destination {
  Destination(TileView view, Where where = Where::here()) : view(std::move(view)), where(where) {}  // NOLINT
  TileView view;
  Where where;
};

// Coordinates are signed: a box may begin in front of its tensor. Of a host integer the caller's line, not
// this header's.
inline u32 coordinate(u32 c, Where) { return c; }
inline u32 coordinate(s32 c, Where) { return u32(c); }
inline u32 coordinate(HostInteger auto c, Where where) { return u32(s32(c, where)); }

template <class C>
concept Coordinate = std::convertible_to<C, u32> || std::convertible_to<C, s32>;

struct MapArgument {
  MapArgument(TensorMap map, Where where = Where::here()) : map(map), where(where) {}  // NOLINT
  TensorMap map;
  Where where;
};

void tma_load(const Destination& to, TensorMap from, const std::vector<u32>& coordinates);
void tma_store(const MapArgument& to, const TileView& from, const std::vector<u32>& coordinates);

// A view and its tile, for the kernel's record.
ViewRecord record_view(KernelRecord& record, const TileView& view);

// Completes a parameter's recipe for copies of `view` in `rank` dimensions. Error when another copy used it
// otherwise.
void bind_tensor_map(TensorMap map, const TileView& view, int rank, std::string_view operation, Where where);

}  // namespace detail

// Loads the box at `coordinates` (elements, innermost first, 1 to 5 of them; negative ones are in front of
// the tensor) into a view; what lies outside the tensor arrives as zeros. One thread calls it. The bytes
// complete on the view's barrier, the stage's or that of `.on(bar)`. A tile wider than its swizzle's span
// takes one copy a panel. The tensor map's recipe (box, swizzle, type) follows from the view. Throws Error
// when the box is illegal, when another copy uses the map with another box, and when the view has no barrier.
template <detail::Coordinate... C>
void tma_load(detail::Destination to, TensorMap from, C... coordinates) {
  detail::tma_load(to, from, {detail::coordinate(coordinates, to.where)...});
}

// Stores a view to the box at `coordinates`; what lies outside the tensor is dropped. One thread calls it,
// after all writers have executed fence_proxy_async_shared and met at a barrier, and then commits:
// cp_async_bulk_commit_group.
template <detail::Coordinate... C>
void tma_store(detail::MapArgument to, const TileView& from, C... coordinates) {
  detail::tma_store(to, from, {detail::coordinate(coordinates, to.where)...});
}

}  // namespace ptxbuilder
