// Implements checked host integers, and instantiates tuples of host integers.
#include "ptxbuilder/layout/int_tuple.inl"

namespace ptxbuilder {
namespace {

using N = LayoutInteger<int64_t>;

template <class F>
int64_t checked(int64_t a, char symbol, int64_t b, F overflows) {
  int64_t result = 0;
  if (overflows(a, b, &result))
    throw Error(fmt::format("a layout's integers have 64 bits: {} {} {} does not fit", a, symbol, b));
  return result;
}

void check_divisor(int64_t a, const char* symbol, int64_t b) {
  if (b == 0) throw Error(fmt::format("a layout divides by zero: {} {} 0", a, symbol));
  if (a == INT64_MIN && b == -1)
    throw Error(fmt::format("a layout's integers have 64 bits: {} {} -1 does not fit", a, symbol));
}

}  // namespace

int64_t N::add(int64_t a, int64_t b) {
  return checked(a, '+', b, [](auto x, auto y, auto* r) { return __builtin_add_overflow(x, y, r); });
}
int64_t N::subtract(int64_t a, int64_t b) {
  return checked(a, '-', b, [](auto x, auto y, auto* r) { return __builtin_sub_overflow(x, y, r); });
}
int64_t N::multiply(int64_t a, int64_t b) {
  return checked(a, '*', b, [](auto x, auto y, auto* r) { return __builtin_mul_overflow(x, y, r); });
}
int64_t N::divide(int64_t a, int64_t b) {
  check_divisor(a, "/", b);
  return a / b;
}
int64_t N::remainder(int64_t a, int64_t b) {
  check_divisor(a, "%", b);
  return a % b;
}
int64_t N::shift_left(int64_t a, int bits) { return multiply(a, int64_t{1} << bits); }

PTXBUILDER_INSTANTIATE_INT_TUPLE(int64_t)

}  // namespace ptxbuilder
