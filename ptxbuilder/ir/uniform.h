// Marks values that are equal in all threads of a warpgroup although each thread computes its own copy.
#pragma once

#include "ptxbuilder/ir/value.h"

namespace ptxbuilder::detail {

// Marks a value, such as a sum over all threads, as uniform. The library then assumes that conditions on this
// value have the same result in all threads of the warpgroup.
void same_in_warpgroup(Value value);

}  // namespace ptxbuilder::detail
