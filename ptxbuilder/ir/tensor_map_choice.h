// Selects one of several tensor map parameters on the device.
#pragma once

#include <vector>

#include "ptxbuilder/ir/value.h"

namespace ptxbuilder {

// Selects a map by number. For example, a kernel that accesses the memory of several ranks selects the map
// for one rank's tensor. The result can be used like any TensorMap, and checks of its recipe apply to all of
// the maps. A number that is too large selects the last map. Throws Error if there are no maps.
TensorMap choose(u32 number, const std::vector<TensorMap>& maps, Where where = Where::here());

namespace detail {

// Returns the maps among which choose() selected this map, or the map itself.
std::vector<TensorMap> choices_of(TensorMap map);

}  // namespace detail
}  // namespace ptxbuilder
