// The dense types of wgmma that tests go through.
#pragma once

#include <vector>

#include "ptxbuilder/dtype.h"

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

}  // namespace ptxbuilder::test
