// One of several tensor maps that are parameters, which the device chooses.
#pragma once

#include <vector>

#include "ptxbuilder/ir/value.h"

namespace ptxbuilder {

// The map of a number: of each rank's tensor, for kernels that reach the memory of several, or of each of the
// places where a tile may lie. Whatever takes a TensorMap takes it, and what that says of the map's recipe
// holds for all. A number beyond the last is as good as the last. Throws Error where there is no map.
TensorMap choose(u32 number, const std::vector<TensorMap>& maps, Where where = Where::here());

namespace detail {

// The maps that choose() has made this of, or itself.
std::vector<TensorMap> choices_of(TensorMap map);

}  // namespace detail
}  // namespace ptxbuilder
