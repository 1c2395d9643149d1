// Conversions between elements in memory, which are f16, bf16 or f32, and the f32 numbers in which operations
// on rows compute.
#pragma once

#include <concepts>
#include <string>

#include "kernels/rows/exchange.h"
#include "ptxbuilder/dtype.h"
#include "ptxbuilder/error.h"
#include "ptxbuilder/registers/tile.h"

namespace ptxbuilder::kernels {

// Calls `f` with a value of the type, and returns its result. Throws an Error if the type is not f16, bf16 or
// f32.
template <class F>
auto with_type(DType type, F&& f) {
  switch (type) {
    case DType::f16:
      return f(f16(0.f));
    case DType::bf16:
      return f(bf16(0.f));
    case DType::f32:
      return f(f32(0.f));
    default:
      throw Error("elements of " + std::string(name(type)));
  }
}

template <class T>
Numbers widened(const RegisterTile<T>& x) {
  if constexpr (std::same_as<T, f32>)
    return x;
  else
    return astype<f32>(x);
}

template <class T>
RegisterTile<T> narrowed(const Numbers& x) {
  if constexpr (std::same_as<T, f32>)
    return x;
  else
    return astype<T>(x);
}

}  // namespace ptxbuilder::kernels
