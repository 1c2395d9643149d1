// Selects on the device one of several tensor maps that are parameters.
#pragma once

#include <vector>

#include "ptxbuilder/ir/value.h"

namespace ptxbuilder {

// Selects a map by number: for example the tensor of each rank, in kernels that access the memory of several
// ranks, or one of several places of a tile. The result can be used like any TensorMap, and checks of its
// recipe apply to all of the maps. A number that is too large selects the last map. Throws Error without
// maps.
TensorMap choose(u32 number, const std::vector<TensorMap>& maps, Where where = Where::here());

namespace detail {

// Returns the maps that choose() selects from to make this map, or the map itself.
std::vector<TensorMap> choices_of(TensorMap map);

}  // namespace detail
}  // namespace ptxbuilder
