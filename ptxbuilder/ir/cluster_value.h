// Values in the CTAs of a cluster, as far as they follow from the CTA's place, constants and a kernel's
// parameters.
#pragma once

#include <array>

#include "ptxbuilder/ir/value.h"

namespace ptxbuilder::detail {

// Returns whether a value is known to differ between CTAs of a cluster that lie side by side along an axis, 0
// to 2. A value that depends on anything else, as memory or a loop's variable, is not known to.
bool differs_along(const Value& value, size_t axis, const std::array<int, 3>& cluster);

}  // namespace ptxbuilder::detail
