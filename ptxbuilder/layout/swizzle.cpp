// Implements swizzles of offsets.
#include "ptxbuilder/layout/swizzle.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "ptxbuilder/error.h"

namespace ptxbuilder {
namespace {

int log2_of(int64_t n) {
  if (n < 1 || !std::has_single_bit(static_cast<uint64_t>(n)))
    throw Error(
        fmt::format("a swizzle's elements become {} times as wide; the factor must be a power of two", n));
  return std::countr_zero(static_cast<uint64_t>(n));
}

}  // namespace

XorSwizzle::XorSwizzle(int bits, int base, int shift) : bits_(bits), base_(base), shift_(shift) {
  constexpr int limit = 62;
  bool small = bits >= 0 && bits <= limit && base >= 0 && base <= limit && shift >= -limit && shift <= limit;
  if (!small || std::abs(shift) < bits || bits + base + std::abs(shift) > limit)
    throw Error(
        fmt::format("Sw<{},{},{}>: B and M must be at least 0, |S| at least B, and B + M + |S| at most {}",
                    bits, base, shift, limit));
}

std::string to_string(const XorSwizzle& s) {
  return fmt::format("Sw<{},{},{}>", s.bits(), s.base(), s.shift());
}

XorSwizzle byte_swizzle(Swizzle swizzle) { return {static_cast<int>(swizzle), 4, 3}; }

XorSwizzle upcast(const XorSwizzle& s, int64_t n) {
  int base = s.base() - log2_of(n);
  if (base >= 0) return {s.bits(), base, s.shift()};
  return {std::max(s.bits() + base, 0), 0, s.shift()};
}

XorSwizzle downcast(const XorSwizzle& s, int64_t n) { return {s.bits(), s.base() + log2_of(n), s.shift()}; }

XorSwizzle recast(const XorSwizzle& s, int64_t from_bits, int64_t to_bits) {
  if (from_bits < 1 || to_bits < 1)
    throw Error(
        fmt::format("recast: elements of {} bits cannot become elements of {}: both must be at least 1",
                    from_bits, to_bits));
  int64_t common = std::gcd(from_bits, to_bits);
  return downcast(upcast(s, to_bits / common), from_bits / common);
}

ComposedLayout recast(const ComposedLayout& composed, int64_t from_bits, int64_t to_bits) {
  XorSwizzle swizzle = recast(composed.swizzle(), from_bits, to_bits);
  Layout layout = recast(composed.layout(), from_bits, to_bits);
  int64_t common = std::gcd(from_bits, to_bits), up = to_bits / common, down = from_bits / common;
  if (composed.offset() % up != 0)
    throw Error(fmt::format("recast: the offset {} of {} must be a multiple of {}", composed.offset(),
                            to_string(composed), up));
  return {swizzle, LayoutInteger<int64_t>::multiply(composed.offset() / up, down), layout};
}

}  // namespace ptxbuilder
