// Values that are the same in all threads of a warpgroup, though each thread computes its own.
#pragma once

#include "ptxbuilder/ir/value.h"

namespace ptxbuilder::detail {

// Marks a value as uniform, such as a sum over all threads: its conditions hold for a warpgroup as a whole.
void same_in_warpgroup(Value value);

}  // namespace ptxbuilder::detail
