// Defines the interface that the layout algebra requires of integers, and implements it for host integers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ptxbuilder {

// The operations of the layout algebra on integers of type I. Every specialization has the same functions as
// LayoutInteger<int64_t> below. Division and remainder round toward zero, as in C++. If an integer is not
// known while the code is generated, known() returns nullopt, and the algebra treats the integer in the way
// in which CuTe treats an integer that is not static.
template <class I>
struct LayoutInteger;

// Implements the operations for host integers of 64 bits. Every operation throws Error if its result does not
// fit.
template <>
struct LayoutInteger<int64_t> {
  // A host integer is always known.
  static std::optional<int64_t> known(int64_t a) { return a; }
  static int64_t add(int64_t a, int64_t b);
  static int64_t subtract(int64_t a, int64_t b);
  static int64_t multiply(int64_t a, int64_t b);
  static int64_t divide(int64_t a, int64_t b);
  static int64_t remainder(int64_t a, int64_t b);
  static int64_t minimum(int64_t a, int64_t b) { return a < b ? a : b; }
  static int64_t bit_and(int64_t a, int64_t b) { return a & b; }
  static int64_t bit_xor(int64_t a, int64_t b) { return a ^ b; }
  static int64_t shift_left(int64_t a, int bits);
  static int64_t shift_right(int64_t a, int bits) { return a >> bits; }
  static std::string text(int64_t a) { return std::to_string(a); }
};

}  // namespace ptxbuilder
