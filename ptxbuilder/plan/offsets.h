// Computes the offsets of all elements of a layout at once.
#pragma once

#include <cstdint>
#include <vector>

#include "ptxbuilder/layout/layout.h"

namespace ptxbuilder {

// The offsets are layout(0), layout(1) and so on. Code that needs the offsets of many elements calls this
// function, which computes them mode by mode, because layout({t, v}) is layout[0](t) + layout[1](v), and each
// evaluation walks the whole layout.
inline std::vector<int64_t> offsets_of(const Layout& layout) {
  std::vector<int64_t> offsets;
  for (int64_t i = 0; i < size(layout); ++i) offsets.push_back(layout(i));
  return offsets;
}

}  // namespace ptxbuilder
