// The functions that layout expressions call.
#pragma once

#include "ptxbuilder/layout/expression.h"

namespace ptxbuilder::detail {

// Calls the function `name`; throws Error for an unknown name, for a wrong number or kind of arguments, and
// for arguments that the function itself rejects.
LayoutValue call_layout_function(std::string_view name, const std::vector<LayoutValue>& arguments);

// Converts a value to the type that its place needs; throws Error that names the value if it has another
// type.
Layout as_layout(const LayoutValue& value);
IntTuple as_tuple(const LayoutValue& value);
int64_t as_integer(const LayoutValue& value);
Tiler as_tiler(const LayoutValue& value);

// L(coordinate): evaluates, or slices if the coordinate contains a `_`.
LayoutValue apply_layout(const LayoutValue& layout, const LayoutValue& coordinate);
// Returns a o b.
LayoutValue compose(const LayoutValue& a, const LayoutValue& b);

}  // namespace ptxbuilder::detail
