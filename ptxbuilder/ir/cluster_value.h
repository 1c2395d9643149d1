// Evaluates values in the CTAs of a cluster, as far as they follow from the CTA's position, constants and the
// kernel's parameters.
#pragma once

#include <array>

#include "ptxbuilder/ir/value.h"

namespace ptxbuilder::detail {

// Returns whether a value is known to differ between CTAs of a cluster that are neighbours along an axis, 0
// to 2. A value that depends on anything else, such as memory or a loop variable, is not known to differ.
bool differs_along(const Value& value, size_t axis, const std::array<int, 3>& cluster);

}  // namespace ptxbuilder::detail
