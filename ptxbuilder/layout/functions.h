// Declares the functions that layout expressions call.
#pragma once

#include "ptxbuilder/layout/expression.h"

namespace ptxbuilder::detail {

// Calls the function `name`. Throws Error for an unknown name, for a wrong number or type of arguments, and
// for arguments that the function itself rejects.
LayoutValue call_layout_function(std::string_view name, const std::vector<LayoutValue>& arguments);

// Convert a value to the type that its context requires. If the value has another type, these functions throw
// an Error that names the value.
Layout as_layout(const LayoutValue& value);
IntTuple as_tuple(const LayoutValue& value);
int64_t as_integer(const LayoutValue& value);
Tiler as_tiler(const LayoutValue& value);

// Evaluates a layout at a coordinate, or slices it if the coordinate contains a `_`.
LayoutValue apply_layout(const LayoutValue& layout, const LayoutValue& coordinate);
// Returns the composition a o b.
LayoutValue compose(const LayoutValue& a, const LayoutValue& b);

}  // namespace ptxbuilder::detail
