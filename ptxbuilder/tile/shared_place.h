// Defines places in shared memory that threads copy from or to.
#pragma once

#include "ptxbuilder/layout/swizzle.h"
#include "ptxbuilder/tile/tma.h"

namespace ptxbuilder {

// An address, a view of a tile, or a slice of a tile. For a view or a slice, the kernel's record holds the
// copied elements, so that the copy can be proved.
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
  bool transposed = false;          // whether the view is transposed
  std::optional<TileView> filling;  // view of a producer's stage that records what is written to it
};

}  // namespace ptxbuilder
