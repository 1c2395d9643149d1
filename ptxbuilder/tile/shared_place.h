// Defines places in shared memory that threads copy from or to.
#pragma once

#include "ptxbuilder/layout/swizzle.h"
#include "ptxbuilder/tile/tma.h"

namespace ptxbuilder {

// A place given by an address, a view of a tile, or a slice of a tile. For a view or a slice, the copied
// elements are added to the kernel's record, so that prove() can check the copy.
struct SharedPlace {
  SharedPlace(smem address) : address(address) {}  // NOLINT
  SharedPlace(const TileView& view)                // NOLINT
      : address(view.address()),
        view(detail::record_view(detail::TileContext::of(Builder::current()).record, view)),
        transposed(view.is_transposed()),
        filling(view.filling() ? std::optional(view) : std::nullopt) {}
  SharedPlace(smem address, std::optional<ViewRecord> view, std::optional<TileView> filling = {})
      : address(address), view(view), filling(std::move(filling)) {}

  smem address;
  std::optional<ViewRecord> view;
  bool transposed = false;
  std::optional<TileView> filling;  // set for a producer's stage, which tracks writes to this view
};

}  // namespace ptxbuilder
