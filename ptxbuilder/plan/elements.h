// Declares element types of tiles and tensor cores that device values cannot have, for calls such as
// `shared<e4m3>(...)`.
#pragma once

#include "ptxbuilder/dtype.h"

namespace ptxbuilder {

// An f32 for tensor cores, which read only the upper 19 bits.
struct tf32 {
  static constexpr DType dtype = DType::tf32;
};
// An 8-bit float with 4 exponent bits and 3 mantissa bits.
struct e4m3 {
  static constexpr DType dtype = DType::e4m3;
};
// An 8-bit float with 5 exponent bits and 2 mantissa bits.
struct e5m2 {
  static constexpr DType dtype = DType::e5m2;
};
// An 8-bit signed integer.
struct s8 {
  static constexpr DType dtype = DType::s8;
};
// An 8-bit unsigned integer.
struct u8 {
  static constexpr DType dtype = DType::u8;
};

}  // namespace ptxbuilder
