// Element types of tiles and tensor cores that are not types of device values: `shared<e4m3>(...)`.
#pragma once

#include "ptxbuilder/dtype.h"

namespace ptxbuilder {

// The element types as C++ types, with which tiles are declared.
struct tf32 {
  static constexpr DType dtype = DType::tf32;  // an f32; the tensor cores only read its upper 19 bits
};
struct e4m3 {
  static constexpr DType dtype = DType::e4m3;
};
// An 8-bit float with 5 exponent bits and 2 mantissa bits.
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
