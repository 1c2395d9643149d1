// Emits TMA copies for tiles of tensors with hierarchical modes.
#pragma once

#include "ptxbuilder/ir/tensor_modes.h"
#include "ptxbuilder/tile/tma.h"

namespace ptxbuilder {

// Copy a tile of a tensor, such as TensorModes::tile() returns, with a single TMA copy. The launch passes the
// tensor that TensorModes::map_tensor() describes. The columns of the tile run along the dimension of stride
// 1. The rows run along the next dimension or along the next two dimensions, as the 4 x 2 rows of the tile
// ((4,2),16) do. Each dimension has its own bound. Elements outside the bounds are loaded as zeros, and are
// not stored. The view in shared memory determines the other properties, as in tile/tma.h. Both functions
// throw Error if the shapes differ, or if rows or columns run along other dimensions.
//   const TensorModes a(DeviceLayout({{8, n}, 64}, {{64, ld}, 1}));
//   tma_load(sA[s], A, a.tile({{4, 2}, 16}, {{i, j}, k}));
void tma_load(detail::Destination to, TensorMap from, const TensorModes& tile);
void tma_store(detail::MapArgument to, const CopyView& from, const TensorModes& tile);

}  // namespace ptxbuilder
