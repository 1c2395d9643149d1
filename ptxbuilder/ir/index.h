// Defines integers that are either host integers or device values, and layouts of such integers. Parts that
// are known on the host are folded, and other parts become code:
//
//   DeviceLayout a({64, n}, {1, 64});                 // n is a u32
//   u32 offset = a({row, column}).value();            // row + column * 64
//   DeviceLayout tiles = zipped_divide(a, {16, 8});   // ((16,8),(4,n/8 rounded up))
//
// The algebra treats a device value in the way in which CuTe treats a value that is not static. A condition
// on the value is assumed to hold if CuTe assumes it, for example that extents are multiples of the tile and
// that strides are positive. coalesce and the inverses do not test conditions that CuTe does not test. For
// any other condition on a device value, an Error names the value that must be known on the host.
#pragma once

#include "ptxbuilder/ir/value.h"
#include "ptxbuilder/layout/swizzle.h"

namespace ptxbuilder {

// An integer that is either known on the host or a device value. Device values are unsigned: the results of
// all operations stay below 2^32 or wrap around, so a known negative stride still counts backwards. A u32
// that holds a constant counts as known.
class Index {
 public:
  template <detail::HostInteger T>
  Index(T value) : known_(check(value)) {}  // NOLINT: host integers are known
  Index(u32 value);                         // NOLINT: device values are indices

  // Returns the host integer, if the value is known.
  std::optional<int64_t> known() const { return known_; }
  // Returns the integer as a device value. Throws Error for a host integer that does not fit in 32 bits.
  u32 value(Where where = Where::here()) const;

 private:
  template <class T>
  static int64_t check(T value) {
    if (!std::in_range<int64_t>(+value)) out_of_range(std::to_string(value));
    return static_cast<int64_t>(value);
  }
  [[noreturn]] static void out_of_range(const std::string& value);

  detail::Region region_;
  std::optional<int64_t> known_;
  std::optional<u32> device_;  // set if the integer is a device value
};

template <>
struct LayoutInteger<Index> {
  static std::optional<int64_t> known(const Index& a) { return a.known(); }
  static Index add(const Index& a, const Index& b);
  static Index subtract(const Index& a, const Index& b);
  static Index multiply(const Index& a, const Index& b);
  static Index divide(const Index& a, const Index& b);
  static Index remainder(const Index& a, const Index& b);
  static Index minimum(const Index& a, const Index& b);
  static Index bit_and(const Index& a, const Index& b);
  static Index bit_xor(const Index& a, const Index& b);
  static Index shift_left(const Index& a, int bits);
  static Index shift_right(const Index& a, int bits);
  static std::string text(const Index& a) { return a.known() ? std::to_string(*a.known()) : "?"; }
};

// Tuples and layouts of integers that may be device values.
using DeviceTuple = BasicTuple<Index>;
using DeviceLayout = BasicLayout<Index>;
using DeviceTiler = BasicTiler<Index>;
using DeviceComposedLayout = BasicComposedLayout<Index>;

// Convert tuples and layouts of host integers, so that they can be combined with device values.
DeviceTuple to_device(const IntTuple& tuple);
DeviceLayout to_device(const Layout& layout);

}  // namespace ptxbuilder
