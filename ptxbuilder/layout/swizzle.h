// Defines CuTe's swizzles, which compute the exclusive or of some bits of an offset and other bits, and
// layouts that apply a swizzle.
#pragma once

#include "ptxbuilder/layout/layout.h"
#include "ptxbuilder/signature.h"

namespace ptxbuilder {

// CuTe's Swizzle<B,M,S>, which replaces the B bits Z, beginning at bit M - min(S,0), with Z ^ Y. The B bits Y
// begin at bit M + max(S,0).
//
//   S > 0:   ..... Y...Y ..... Z...Z m...m
//                  |-B-|       |-B-| |-M-|      Y is S bits above Z
class XorSwizzle {
 public:
  // Throws Error unless B and M are nonnegative, |S| >= B, and all bits are among the low 62.
  XorSwizzle(int bits, int base, int shift);

  int bits() const { return bits_; }    // B
  int base() const { return base_; }    // M
  int shift() const { return shift_; }  // S
  int64_t y_mask() const { return mask(shift_ > 0 ? shift_ : 0); }
  int64_t z_mask() const { return mask(shift_ < 0 ? -shift_ : 0); }
  // Returns the period p of the swizzle. Adding p to an offset adds p to the swizzled offset.
  int64_t period() const {
    return bits_ == 0 ? 1 : int64_t{1} << (base_ + (shift_ < 0 ? -shift_ : shift_) + bits_);
  }

  // Returns the swizzled offset.
  template <class I>
  I apply(const I& offset) const {
    using N = LayoutInteger<I>;
    I y = N::bit_and(offset, y_mask());
    return N::bit_xor(offset, shift_ < 0 ? N::shift_left(y, -shift_) : N::shift_right(y, shift_));
  }
  int64_t operator()(int64_t offset) const { return apply(offset); }

  friend bool operator==(const XorSwizzle&, const XorSwizzle&) = default;

 private:
  int64_t mask(int above) const { return ((int64_t{1} << bits_) - 1) << (base_ + above); }

  int bits_, base_, shift_;
};

std::string to_string(const XorSwizzle& swizzle);  // such as "Sw<3,4,3>"

// Returns the swizzle that TMA and wgmma apply to byte offsets (PTX ISA, "Swizzling Modes"): Sw<3,4,3> for
// 128 B, and Sw<0,4,3> without swizzling.
XorSwizzle byte_swizzle(Swizzle swizzle);
// Return the swizzle for offsets that count elements that are n times as wide (upcast) or n times as narrow
// (downcast), or that have another width in bits (recast). n must be a power of two.
XorSwizzle upcast(const XorSwizzle& swizzle, int64_t n);
XorSwizzle downcast(const XorSwizzle& swizzle, int64_t n);
XorSwizzle recast(const XorSwizzle& swizzle, int64_t from_bits, int64_t to_bits);

// A layout with a swizzle, written as swizzle o offset o layout, which maps c to swizzle(offset + layout(c)).
template <class I>
class BasicComposedLayout {
 public:
  BasicComposedLayout(XorSwizzle swizzle, I offset, BasicLayout<I> layout)
      : swizzle_(swizzle), offset_(std::move(offset)), layout_(std::move(layout)) {}

  const XorSwizzle& swizzle() const { return swizzle_; }
  const I& offset() const { return offset_; }
  const BasicLayout<I>& layout() const { return layout_; }
  const BasicTuple<I>& shape() const { return layout_.shape(); }

  I operator()(const BasicTuple<I>& coordinate) const {
    return swizzle_.apply(LayoutInteger<I>::add(offset_, layout_(coordinate)));
  }

  // Returns a composed layout with the same swizzle and offset, but another layout. The algebra can thus be
  // applied to the layout alone: composed.with(logical_divide(composed.layout(), tiler)).
  BasicComposedLayout with(BasicLayout<I> layout) const { return {swizzle_, offset_, std::move(layout)}; }

 private:
  XorSwizzle swizzle_;
  I offset_;
  BasicLayout<I> layout_;
};

// A swizzled layout of host integers.
using ComposedLayout = BasicComposedLayout<int64_t>;

template <class I>
bool operator==(const BasicComposedLayout<I>& a, const BasicComposedLayout<I>& b) {
  return a.swizzle() == b.swizzle() && BasicTuple<I>(a.offset()) == BasicTuple<I>(b.offset()) &&
         a.layout() == b.layout();
}

template <class I>
std::string to_string(const BasicComposedLayout<I>& composed) {  // such as "Sw<3,4,3> o 0 o (8,64):(64,1)"
  std::string text = to_string(composed.swizzle());
  text.append(" o ").append(LayoutInteger<I>::text(composed.offset()));
  return text.append(" o ").append(to_string(composed.layout()));
}

// Slices a composed layout: retains the modes at which the coordinate is `_`, and adds the offset of the
// other modes.
template <class I>
BasicComposedLayout<I> slice(TilerArgument<I> coordinate, const BasicComposedLayout<I>& composed) {
  I offset = LayoutInteger<I>::add(composed.offset(), slice_offset<I>(coordinate, composed.layout()));
  return {composed.swizzle(), offset, slice<I>(coordinate, composed.layout())};
}

// Changes the unit of offsets. If the unit becomes larger, the offset member of `composed` must be a multiple
// of the new unit.
ComposedLayout recast(const ComposedLayout& composed, int64_t from_bits, int64_t to_bits);

}  // namespace ptxbuilder
