// Evaluates values in the CTAs of a cluster, if they depend only on the CTA's position, on constants and on
// the kernel's parameters.
#pragma once

#include <array>

#include "ptxbuilder/ir/value.h"

namespace ptxbuilder::detail {

// Returns whether a value is known to differ between any two CTAs of a cluster that are neighbours along
// `axis`, which is 0 to 2. A value that depends on anything else, such as memory or a loop variable, is not
// known to differ.
bool differs_along(const Value& value, size_t axis, const std::array<int, 3>& cluster);

}  // namespace ptxbuilder::detail
