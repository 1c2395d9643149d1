// Defines the interface to integers that the layout algebra requires, and implements it for host integers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ptxbuilder {

// The layout algebra's operations on an integer of type I. A specialization has the same functions as the one
// for host integers below. Division and remainder round toward zero, as in C++. If an operand is not known
// while the code is generated, known() returns nothing, and the algebra treats the integer as CuTe treats one
// that is not static.
template <class I>
struct LayoutInteger;

// Host integers have 64 bits; every operation throws Error if its result does not fit.
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
