// The elements of buffers as numbers, for every element type.
#pragma once

#include <cstddef>

#include "ptxbuilder/dtype.h"

namespace ptxbuilder::command {

// Writes `value` in the size_of(type) bytes at `to`: floats are rounded to the nearest even; integers take
// the low bits of the whole number.
void put(std::byte* to, DType type, double value);
// The value of an element: exact but for 64-bit integers beyond 2^53.
double value_of(const std::byte* from, DType type);

}  // namespace ptxbuilder::command
