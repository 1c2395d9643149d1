// Emits TMA copies of tiles of tensors whose modes consist of modes.
#pragma once

#include "ptxbuilder/ir/tensor_modes.h"
#include "ptxbuilder/tile/tma.h"

namespace ptxbuilder {

// Copy a view of a tensor's modes, such as TensorModes::tile() returns, with a single TMA copy. The launch
// passes the tensor that TensorModes::map_tensor() describes. The columns of the tile run along the dimension
// of stride 1, and its rows along the next dimension, or along the next two, such as the 4 x 2 rows of the
// tile ((4,2),16). Each dimension has its own bound: elements beyond it are loaded as zeros, and are not
// stored. The view in shared memory determines the other properties, as in tile/tma.h. Throws Error if the
// shapes differ, or if rows or columns run along other dimensions.
//   const TensorModes a(DeviceLayout({{8, n}, 64}, {{64, ld}, 1}));
//   tma_load(sA[s], A, a.tile({{4, 2}, 16}, {{i, j}, k}));
void tma_load(detail::Destination to, TensorMap from, const TensorModes& tile);
void tma_store(detail::MapArgument to, const CopyView& from, const TensorModes& tile);

}  // namespace ptxbuilder
