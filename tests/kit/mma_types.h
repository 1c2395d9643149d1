// The dense types of wgmma that tests use.
#pragma once

#include <vector>

#include "ptxbuilder/ir/value.h"
#include "ptxbuilder/plan/elements.h"

namespace ptxbuilder::test {

struct Types {
  DType a, b, d;
};

inline std::vector<Types> all_types() {
  using enum DType;
  std::vector<Types> types = {{f16, f16, f32}, {f16, f16, f16}, {bf16, bf16, f32}, {tf32, tf32, f32}};
  for (DType d : {f32, f16})
    for (DType a : {e4m3, e5m2})
      for (DType b : {e4m3, e5m2}) types.push_back({a, b, d});
  for (DType a : {s8, u8})
    for (DType b : {s8, u8}) types.push_back({a, b, s32});
  return types;
}

// Calls body.operator()<T>() with the tile's element type for A.
template <class Body>
void visit_a_type(DType type, const Body& body) {
  switch (type) {
    case DType::f16:
      return body.template operator()<f16>();
    case DType::bf16:
      return body.template operator()<bf16>();
    case DType::tf32:
      return body.template operator()<tf32>();
    case DType::e4m3:
      return body.template operator()<e4m3>();
    case DType::e5m2:
      return body.template operator()<e5m2>();
    case DType::s8:
      return body.template operator()<s8>();
    case DType::u8:
      return body.template operator()<u8>();
    default:
      throw Error("no type of A");
  }
}

}  // namespace ptxbuilder::test
