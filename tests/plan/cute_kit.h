// What the oracles share: names of CuTe's types as this project has them, and wgmma's atoms of a swizzle.
#pragma once

#include <cute/tensor.hpp>

using namespace cute;
using cute::SM90::GMMA::Major;

template <class Type>
constexpr const char* kName = "?";
template <>
constexpr const char* kName<half_t> = "f16";
template <>
constexpr const char* kName<bfloat16_t> = "bf16";
template <>
constexpr const char* kName<float> = "f32";
template <>
constexpr const char* kName<tfloat32_t> = "tf32";
template <>
constexpr const char* kName<float_e4m3_t> = "e4m3";
template <>
constexpr const char* kName<float_e5m2_t> = "e5m2";
template <>
constexpr const char* kName<int8_t> = "s8";
template <>
constexpr const char* kName<uint8_t> = "u8";

template <class Type, Major major, int swizzle>
auto atom() {
  using namespace SM90::GMMA;
  if constexpr (swizzle == 0) return Layout_INTER_Atom<Type, major>{};
  if constexpr (swizzle == 32) return Layout_SW32_Atom<Type, major>{};
  if constexpr (swizzle == 64) return Layout_SW64_Atom<Type, major>{};
  if constexpr (swizzle == 128) return Layout_SW128_Atom<Type, major>{};
}
