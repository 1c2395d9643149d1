// Integers, some of them known while the kernel is built and some on the device alone, and layouts of them.
// What is known folds, and the rest becomes code:
//
//   DeviceLayout a({64, n}, {1, 64});                 // n a u32
//   u32 offset = a({row, column}).value();            // row + column * 64
//   DeviceLayout tiles = zipped_divide(a, {16, 8});   // ((16,8),(4,n/8 rounded up))
//
// The algebra treats a device value as CuTe one that is not static: what would hang on it is assumed where
// CuTe assumes it (that tiles divide, that strides are positive), left out where CuTe leaves it out (modes in
// coalesce and inverses), and an Error elsewhere that says what must be known.
#pragma once

#include "ptxbuilder/ir/value.h"
#include "ptxbuilder/layout/swizzle.h"

namespace ptxbuilder {

// Device values are unsigned: with the results of all operations they stay below 2^32, or wrap, so that a
// known negative stride still counts backwards. A u32 that is a constant is known.
class Index {
 public:
  template <detail::HostInteger T>
  Index(T value) : known_(check(value)) {}  // NOLINT: host integers are known
  Index(u32 value);                         // NOLINT: device values are indices

  // The host integer, if it is one.
  std::optional<int64_t> known() const { return known_; }
  // The integer as a device value. Throws Error for a host integer out of 32 bits.
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
  std::optional<u32> device_;  // if not known
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

// The layout algebra on integers that only the device may know.
using DeviceTuple = BasicTuple<Index>;
using DeviceLayout = BasicLayout<Index>;
using DeviceTiler = BasicTiler<Index>;
using DeviceComposedLayout = BasicComposedLayout<Index>;

// A layout of the host's, to be mixed with device values.
DeviceTuple to_device(const IntTuple& tuple);
DeviceLayout to_device(const Layout& layout);

}  // namespace ptxbuilder
