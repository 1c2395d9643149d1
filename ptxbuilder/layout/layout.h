// CuTe's layouts, shape : stride as a function from coordinates to offsets, and their algebra. One library
// serves two kinds of integers: the host's, while a kernel is being built, and those of the device
// (ir/index.h), where known parts fold and the rest becomes code. Functions bear CuTe's names and follow CuTe
// C++; a host integer is what is static there.
//
//   Layout a = make_layout({4, {2, 4}}, {1, {16, 4}});        // (4,(2,4)):(1,(16,4))
//   a({1, {1, 0}})                                            // 17
//   logical_divide(a, {make_layout(2), make_layout(4)})       // a tile by mode
//
// All throw Error that names the function, its arguments and the condition that fails. With host integers
// every result fits 64 bits, or that is an Error too.
#pragma once

#include <span>
#include <variant>

#include "ptxbuilder/layout/int_tuple.h"

namespace ptxbuilder {

// A layout is a function from coordinates to offsets, given by a shape and congruent strides (CuTe,
// "Layouts").
template <class I>
class BasicLayout {
 public:
  BasicLayout() : shape_(int64_t{1}), stride_(int64_t{0}) {}
  // Congruent, each shape at least 1 and their product within 64 bits.
  explicit BasicLayout(BasicTuple<I> shape, BasicTuple<I> stride);

  const BasicTuple<I>& shape() const { return shape_; }
  const BasicTuple<I>& stride() const { return stride_; }

  // The offset of a coordinate. Throws Error where the strides have a basis: see image().
  I operator()(const BasicTuple<I>& coordinate) const { return crd2idx<I>(coordinate, shape_, stride_); }
  // Mode i as a layout.
  BasicLayout operator[](size_t i) const;

 private:
  BasicTuple<I> shape_, stride_;
};

// A layout whose extents and strides the host knows.
using Layout = BasicLayout<int64_t>;

// A parameter of this type takes no part in the deduction of I.
template <class I>
using LayoutArgument = const std::type_identity_t<BasicLayout<I>>&;

// The type of `_`.
struct Underscore {};
inline constexpr Underscore _{};  // a whole mode: in slices, and as the tiler that leaves a mode alone

// A tiler divides, composes or slices by mode: an integer n for n:1, a layout, `_`, or a tuple of such. As
// with IntTuple, braces make tuples.
template <class I>
class BasicTiler {
 public:
  template <std::convertible_to<I> T>
  BasicTiler(T size) : value_(I(std::move(size))) {}                // NOLINT
  BasicTiler(Underscore) : value_(_) {}                             // NOLINT
  BasicTiler(BasicLayout<I> layout) : value_(std::move(layout)) {}  // NOLINT
  BasicTiler(const BasicTuple<I>& shape);                           // NOLINT
  BasicTiler(std::initializer_list<BasicTiler> modes) : BasicTiler(std::vector<BasicTiler>(modes)) {}
  explicit BasicTiler(std::vector<BasicTiler> modes);

  bool is_tuple() const { return std::holds_alternative<std::vector<BasicTiler>>(value_); }
  bool is_underscore() const { return std::holds_alternative<Underscore>(value_); }
  const BasicLayout<I>* layout() const { return std::get_if<BasicLayout<I>>(&value_); }
  const I* integer() const { return std::get_if<I>(&value_); }
  const std::vector<BasicTiler>& modes() const;  // of a tuple

 private:
  std::variant<I, Underscore, BasicLayout<I>, std::vector<BasicTiler>> value_;
};

// A tiler of integers that the host knows.
using Tiler = BasicTiler<int64_t>;

// A parameter of this type takes no part in the deduction of I.
template <class I>
using TilerArgument = const std::type_identity_t<BasicTiler<I>>&;

template <class I>
bool operator==(const BasicLayout<I>& a, const BasicLayout<I>& b) {
  return a.shape() == b.shape() && a.stride() == b.stride();
}

// "(4,(2,4)):(1,(16,4))", "<4:1,_,8>".
template <class I>
std::string to_string(const BasicLayout<I>& layout);
template <class I>
std::string to_string(const BasicTiler<I>& tiler);

// Making layouts. Without strides a layout is compact, the first mode contiguous.
template <class I = int64_t>
BasicLayout<I> make_layout(TupleArgument<I> shape);
template <class I = int64_t>
BasicLayout<I> make_layout(TupleArgument<I> shape, TupleArgument<I> stride);
template <class I = int64_t>
BasicLayout<I> make_row_major_layout(TupleArgument<I> shape);
template <class I = int64_t>
BasicLayout<I> make_ordered_layout(TupleArgument<I> shape, const IntTuple& order);
template <class I = int64_t>
BasicLayout<I> make_identity_layout(TupleArgument<I> shape);
// Compact, in the order of the strides of `layout`; strides of 0 stay.
template <class I>
BasicLayout<I> make_layout_like(const BasicLayout<I>& layout);
// Each layout becomes a mode.
template <class I = int64_t>
BasicLayout<I> concatenate(const std::vector<BasicLayout<I>>& modes);

// The number of modes, how deep they are nested, and the number of coordinates.
template <class I>
int rank(const BasicLayout<I>& layout) {
  return rank(layout.shape());
}
template <class I>
int depth(const BasicLayout<I>& layout) {
  return depth(layout.shape());
}
template <class I>
I size(const BasicLayout<I>& layout) {
  return size(layout.shape());
}
// One more than the largest offset, with strides taken absolutely; by mode of a basis in coshape.
template <class I>
I cosize(const BasicLayout<I>& layout);
template <class I>
BasicTuple<I> coshape(const BasicLayout<I>& layout);
template <class I>
BasicTuple<I> image(TupleArgument<I> coordinate, const BasicLayout<I>& layout) {
  return image<I>(coordinate, layout.shape(), layout.stride());
}

// Modes as of a tuple: ranges [begin, end), and append and prepend up to a rank, or by one.
template <class I>
BasicLayout<I> flatten(const BasicLayout<I>& layout);
template <class I>
BasicLayout<I> unflatten(const BasicLayout<I>& layout, TupleArgument<I> profile);
template <class I>
BasicLayout<I> take(const BasicLayout<I>& layout, int begin, int end);
template <class I>
BasicLayout<I> select(const BasicLayout<I>& layout, const std::vector<int>& modes);
template <class I>
BasicLayout<I> group(const BasicLayout<I>& layout, int begin, int end);
template <class I>
BasicLayout<I> append(const BasicLayout<I>& layout, LayoutArgument<I> mode = {}, int to_rank = 0);
template <class I>
BasicLayout<I> prepend(const BasicLayout<I>& layout, LayoutArgument<I> mode = {}, int to_rank = 0);
template <class I>
BasicLayout<I> replace(const BasicLayout<I>& layout, int i, LayoutArgument<I> mode);
// ((A,a),(B,b)) to ((A,B),(a,b)), and two layouts to ((a0,b0),(a1,b1)).
template <class I>
BasicLayout<I> zip(const BasicLayout<I>& layout);
template <class I>
BasicLayout<I> zip(const BasicLayout<I>& a, LayoutArgument<I> b);

// slice keeps the modes at `_`, dice the others. A coordinate is a tiler without layouts: slice({_, 2}, l).
template <class I>
BasicLayout<I> slice(TilerArgument<I> coordinate, const BasicLayout<I>& layout);
template <class I>
BasicLayout<I> dice(TilerArgument<I> coordinate, const BasicLayout<I>& layout);
// The offset of a coordinate where `_` counts as 0.
template <class I>
I slice_offset(TilerArgument<I> coordinate, const BasicLayout<I>& layout);

// The same function with as few modes as possible; below the integers of `profile`, so that its modes stay.
template <class I>
BasicLayout<I> coalesce(const BasicLayout<I>& layout);
template <class I>
BasicLayout<I> coalesce(const BasicLayout<I>& layout, TupleArgument<I> profile);
// Modes of stride 0 become of size 1; filter also coalesces them away.
template <class I>
BasicLayout<I> filter_zeros(const BasicLayout<I>& layout);
template <class I>
BasicLayout<I> filter(const BasicLayout<I>& layout);
template <class I>
BasicLayout<I> filter(const BasicLayout<I>& layout, TupleArgument<I> profile);

// R with R(c) = a(b(c)), compatible with b. By mode for a tuple, where modes of `a` beyond it are dropped.
// Where a stride of `b` is below a mode of `a` and does not divide it, the mode counts as rounded up, as CuTe
// has it for tiles that hang over. With values not known, divisibility is assumed.
template <class I>
BasicLayout<I> composition(const BasicLayout<I>& a, TilerArgument<I> b);
// The ordered layout of what `layout` leaves out below `cotarget`, a size or shape. Several modes must have
// known strides.
template <class I>
BasicLayout<I> complement(const BasicLayout<I>& layout, TupleArgument<I> cotarget);
template <class I>
BasicLayout<I> complement(const BasicLayout<I>& layout);
// R with layout(R(i)) = i, as large as there is one. Modes with strides not known are left out.
template <class I>
BasicLayout<I> right_inverse(const BasicLayout<I>& layout);
// L with layout(L(layout(i))) = layout(i).
template <class I>
BasicLayout<I> left_inverse(const BasicLayout<I>& layout);
// The offsets where `layout` is 0.
template <class I>
BasicLayout<I> nullspace(const BasicLayout<I>& layout);

// Tiles of a layout, (tile, rest): logical keeps the modes, zipped gathers ((tiles),(rests)), tiled unpacks
// the rests, flat both.
template <class I>
BasicLayout<I> logical_divide(const BasicLayout<I>& layout, TilerArgument<I> tiler);
template <class I>
BasicLayout<I> zipped_divide(const BasicLayout<I>& layout, TilerArgument<I> tiler);
template <class I>
BasicLayout<I> tiled_divide(const BasicLayout<I>& layout, TilerArgument<I> tiler);
template <class I>
BasicLayout<I> flat_divide(const BasicLayout<I>& layout, TilerArgument<I> tiler);

// Repetitions of a block, (block, repetitions), in the same forms.
template <class I>
BasicLayout<I> logical_product(const BasicLayout<I>& block, TilerArgument<I> tiler);
template <class I>
BasicLayout<I> zipped_product(const BasicLayout<I>& block, TilerArgument<I> tiler);
template <class I>
BasicLayout<I> tiled_product(const BasicLayout<I>& block, TilerArgument<I> tiler);
template <class I>
BasicLayout<I> flat_product(const BasicLayout<I>& block, TilerArgument<I> tiler);
// By mode (block, repetition), or interleaved (repetition, block).
template <class I>
BasicLayout<I> blocked_product(const BasicLayout<I>& block, LayoutArgument<I> tiler);
template <class I>
BasicLayout<I> raked_product(const BasicLayout<I>& block, LayoutArgument<I> tiler);
// The block repeated up to a shape, along mode 0 first or in an order as of make_ordered_layout.
template <class I>
BasicLayout<I> tile_to_shape(const BasicLayout<I>& block, TupleArgument<I> shape);
template <class I>
BasicLayout<I> tile_to_shape(const BasicLayout<I>& block, TupleArgument<I> shape, const IntTuple& order);

// The largest layout R on which a(R(i)) = b(R(i)) = i, and its size: how far both are contiguous together.
template <class I>
BasicLayout<I> max_common_layout(const BasicLayout<I>& a, LayoutArgument<I> b);
template <class I>
I max_common_vector(const BasicLayout<I>& a, LayoutArgument<I> b);
// The largest n with which upcast succeeds.
template <class I>
int64_t max_alignment(const BasicLayout<I>& layout);

// The layout of elements n times as wide (upcast) or so small that n make one (downcast), and both at once
// from a width in bits to another. Strides not known are taken for multiples of n.
template <class I>
BasicLayout<I> upcast(const BasicLayout<I>& layout, int64_t n);
template <class I>
BasicLayout<I> downcast(const BasicLayout<I>& layout, int64_t n);
template <class I>
BasicLayout<I> recast(const BasicLayout<I>& layout, int64_t from_bits, int64_t to_bits);

}  // namespace ptxbuilder
