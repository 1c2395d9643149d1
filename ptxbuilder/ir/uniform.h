// Values that are the same in all threads of a warpgroup, though each thread computes its own.
#pragma once

#include "ptxbuilder/ir/value.h"

namespace ptxbuilder::detail {

// Says so of a value, as of a sum over all threads: what it lets in, it lets in as a whole.
void same_in_warpgroup(Value value);

}  // namespace ptxbuilder::detail
