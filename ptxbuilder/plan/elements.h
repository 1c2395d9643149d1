// Element types that tiles hold and tensor cores multiply, but that are no device value: `shared<e4m3>(...)`.
#pragma once

#include "ptxbuilder/dtype.h"

namespace ptxbuilder {

// These are the element types as types of C++, by which tiles are declared.
struct tf32 {
  static constexpr DType dtype = DType::tf32;  // f32 of which the tensor cores read the upper 19 bits
};
struct e4m3 {
  static constexpr DType dtype = DType::e4m3;
};
// An 8-bit float of 5 bits of exponent and 2 of mantissa.
struct e5m2 {
  static constexpr DType dtype = DType::e5m2;
};
// A signed integer of 8 bits.
struct s8 {
  static constexpr DType dtype = DType::s8;
};
// An unsigned integer of 8 bits.
struct u8 {
  static constexpr DType dtype = DType::u8;
};

}  // namespace ptxbuilder
