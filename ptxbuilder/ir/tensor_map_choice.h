// Selects, on the device, one of several tensor maps that are parameters.
#pragma once

#include <vector>

#include "ptxbuilder/ir/value.h"

namespace ptxbuilder {

// Selects a map by number, for example the tensor of one rank in kernels that access the memory of several
// ranks, or one of several destinations of a tile. The result can be used like any TensorMap, and checks of
// its recipe apply to all of the maps. A number that is too large selects the last map. Throws Error if there
// are no maps.
TensorMap choose(u32 number, const std::vector<TensorMap>& maps, Where where = Where::here());

namespace detail {

// Returns the maps among which choose() selected this map, or the map itself.
std::vector<TensorMap> choices_of(TensorMap map);

}  // namespace detail
}  // namespace ptxbuilder
