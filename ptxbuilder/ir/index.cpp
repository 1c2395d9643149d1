// Implements arithmetic on integers that are either host integers or device values, and the layout algebra on
// these integers.
#include "ptxbuilder/ir/index.h"

#include "ptxbuilder/ir/builder.h"
#include "ptxbuilder/layout/tiling.inl"

namespace ptxbuilder {
namespace {

using Host = LayoutInteger<int64_t>;
using Device = LayoutInteger<Index>;

bool is(const Index& a, int64_t value) { return a.known() == value; }
bool both_known(const Index& a, const Index& b) { return a.known() && b.known(); }

void check_divisor(const Index& b) {
  if (b.known() && *b.known() <= 0)
    throw Error(
        fmt::format("a layout divides a device value by {}, but the divisor must be at least 1", *b.known()));
}

}  // namespace

Index::Index(u32 value) {
  if (std::optional<Builder::Constant> constant = Builder::current().constant(value))
    known_ = static_cast<int64_t>(constant->value);
  else
    device_ = value;
}

u32 Index::value(Where where) const {
  CallersLine line(where);
  if (!known_) return *device_;
  if (*known_ < INT32_MIN || *known_ > UINT32_MAX)
    throw Error(fmt::format("the index {} does not fit in the 32 bits of a device value", *known_));
  return u32(static_cast<uint32_t>(*known_));
}

void Index::out_of_range(const std::string& value) {
  throw Error(fmt::format("the index {} does not fit in a signed 64-bit integer", value));
}

Index Device::add(const Index& a, const Index& b) {
  if (both_known(a, b)) return Host::add(*a.known(), *b.known());
  if (is(a, 0)) return b;
  if (is(b, 0)) return a;
  return a.value() + b.value();
}

Index Device::subtract(const Index& a, const Index& b) {
  if (both_known(a, b)) return Host::subtract(*a.known(), *b.known());
  if (is(b, 0)) return a;
  return a.value() - b.value();
}

Index Device::multiply(const Index& a, const Index& b) {
  if (both_known(a, b)) return Host::multiply(*a.known(), *b.known());
  if (is(a, 0) || is(b, 0)) return 0;
  if (is(a, 1)) return b;
  if (is(b, 1)) return a;
  return a.value() * b.value();
}

Index Device::divide(const Index& a, const Index& b) {
  if (both_known(a, b)) return Host::divide(*a.known(), *b.known());
  check_divisor(b);
  if (is(a, 0)) return 0;
  if (is(b, 1)) return a;
  return a.value() / b.value();
}

Index Device::remainder(const Index& a, const Index& b) {
  if (both_known(a, b)) return Host::remainder(*a.known(), *b.known());
  check_divisor(b);
  if (is(a, 0) || is(b, 1)) return 0;
  return a.value() % b.value();
}

Index Device::minimum(const Index& a, const Index& b) {
  if (both_known(a, b)) return Host::minimum(*a.known(), *b.known());
  return min(a.value(), b.value());
}

Index Device::bit_and(const Index& a, const Index& b) {
  if (both_known(a, b)) return Host::bit_and(*a.known(), *b.known());
  if (is(a, 0) || is(b, 0)) return 0;
  return a.value() & b.value();
}

Index Device::bit_xor(const Index& a, const Index& b) {
  if (both_known(a, b)) return Host::bit_xor(*a.known(), *b.known());
  if (is(a, 0)) return b;
  if (is(b, 0)) return a;
  return a.value() ^ b.value();
}

Index Device::shift_left(const Index& a, int bits) {
  if (a.known()) return Host::shift_left(*a.known(), bits);
  return bits == 0 ? a : Index(a.value() << u32(bits));
}

Index Device::shift_right(const Index& a, int bits) {
  if (a.known()) return Host::shift_right(*a.known(), bits);
  return bits == 0 ? a : Index(a.value() >> u32(bits));
}

DeviceTuple to_device(const IntTuple& tuple) {
  if (!tuple.is_tuple()) return DeviceTuple(tuple.value()).scaled_to(tuple.basis());
  std::vector<DeviceTuple> elements;
  for (const IntTuple& e : tuple.elements()) elements.push_back(to_device(e));
  return DeviceTuple(std::move(elements));
}

DeviceLayout to_device(const Layout& layout) {
  return DeviceLayout(to_device(layout.shape()), to_device(layout.stride()));
}

PTXBUILDER_INSTANTIATE_INT_TUPLE(Index)
PTXBUILDER_INSTANTIATE_LAYOUT(Index)
PTXBUILDER_INSTANTIATE_ALGEBRA(Index)
PTXBUILDER_INSTANTIATE_TILING(Index)

}  // namespace ptxbuilder
