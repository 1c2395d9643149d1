// Marks values that are the same in all threads of a warpgroup although each thread computes its own.
#pragma once

#include "ptxbuilder/ir/value.h"

namespace ptxbuilder::detail {

// Marks a value, such as a sum over all threads, as uniform. The library then assumes that conditions on it
// are the same in the whole warpgroup.
void same_in_warpgroup(Value value);

}  // namespace ptxbuilder::detail
