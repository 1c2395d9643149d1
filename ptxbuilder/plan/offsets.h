// Computes the offsets of all elements of a layout at once.
#pragma once

#include <cstdint>
#include <vector>

#include "ptxbuilder/layout/layout.h"

namespace ptxbuilder {

// Returns layout(0), layout(1) and so on. Each evaluation of a layout walks all of its modes. Code that needs
// many offsets of a layout with two modes should call this function for each mode, because layout({t, v}) is
// layout[0](t) + layout[1](v).
inline std::vector<int64_t> offsets_of(const Layout& layout) {
  std::vector<int64_t> offsets;
  for (int64_t i = 0; i < size(layout); ++i) offsets.push_back(layout(i));
  return offsets;
}

}  // namespace ptxbuilder
