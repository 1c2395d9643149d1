// Defines CuTe layouts and their algebra. A layout is a function from coordinates to offsets, written as
// shape : stride. The library works with two kinds of integers. Host integers exist while a kernel is being
// built. In device integers (ir/index.h), the parts that are known on the host are folded, and all other
// parts become code. Functions have the same names as in CuTe and follow CuTe C++; CuTe's static integers
// correspond to host integers here.
//
//   Layout a = make_layout({4, {2, 4}}, {1, {16, 4}});        // (4,(2,4)):(1,(16,4))
//   a({1, {1, 0}})                                            // 17
//   logical_divide(a, {make_layout(2), make_layout(4)})       // a tile by mode
//
// If a condition is violated, all functions throw an Error that names the function, its arguments and the
// condition. With host integers, they also throw Error if a result does not fit in 64 bits.
#pragma once

#include <span>
#include <variant>

#include "ptxbuilder/layout/int_tuple.h"

namespace ptxbuilder {

// A function from coordinates to offsets, given by a shape and congruent strides (CuTe, "Layouts").
template <class I>
class BasicLayout {
 public:
  BasicLayout() : shape_(int64_t{1}), stride_(int64_t{0}) {}
  // Throws Error unless shape and strides are congruent, each extent is at least 1, and the product of the
  // extents fits in 64 bits.
  explicit BasicLayout(BasicTuple<I> shape, BasicTuple<I> stride);

  const BasicTuple<I>& shape() const { return shape_; }
  const BasicTuple<I>& stride() const { return stride_; }

  // Returns the offset of a coordinate. Throws Error if the strides have a basis; use image() instead.
  I operator()(const BasicTuple<I>& coordinate) const { return crd2idx<I>(coordinate, shape_, stride_); }
  // Returns mode i as a layout.
  BasicLayout operator[](size_t i) const;

 private:
  BasicTuple<I> shape_, stride_;
};

// A layout whose extents and strides are host integers.
using Layout = BasicLayout<int64_t>;

// Excludes a parameter from the deduction of I.
template <class I>
using LayoutArgument = const std::type_identity_t<BasicLayout<I>>&;

// The type of `_`.
struct Underscore {};
inline constexpr Underscore _{};  // in a slice, selects all of a mode; as a tiler, leaves a mode unchanged

// An argument that divides, composes or slices a layout mode by mode. A tiler is an integer n, which means
// n:1, a layout, `_`, or a tuple of tilers. As with IntTuple, braces make tuples.
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
  const std::vector<BasicTiler>& modes() const;  // elements of a tuple

 private:
  std::variant<I, Underscore, BasicLayout<I>, std::vector<BasicTiler>> value_;
};

// A tiler with host integers.
using Tiler = BasicTiler<int64_t>;

// Excludes a parameter from the deduction of I.
template <class I>
using TilerArgument = const std::type_identity_t<BasicTiler<I>>&;

template <class I>
bool operator==(const BasicLayout<I>& a, const BasicLayout<I>& b) {
  return a.shape() == b.shape() && a.stride() == b.stride();
}

// Return strings such as "(4,(2,4)):(1,(16,4))" and "<4:1,_,8>".
template <class I>
std::string to_string(const BasicLayout<I>& layout);
template <class I>
std::string to_string(const BasicTiler<I>& tiler);

// Make layouts. If no strides are given, the layout is compact, and its first mode is contiguous.
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
// Returns a compact layout of the same shape whose strides have the same order as the strides of `layout`.
// Strides of 0 remain 0.
template <class I>
BasicLayout<I> make_layout_like(const BasicLayout<I>& layout);
// Returns a layout whose modes are the given layouts.
template <class I = int64_t>
BasicLayout<I> concatenate(const std::vector<BasicLayout<I>>& modes);

// Return the number of modes, the depth to which they are nested, and the number of coordinates.
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
// Return the largest offset plus one, computed with the absolute values of the strides. coshape() returns
// this number for each mode of a basis.
template <class I>
I cosize(const BasicLayout<I>& layout);
template <class I>
BasicTuple<I> coshape(const BasicLayout<I>& layout);
template <class I>
BasicTuple<I> image(TupleArgument<I> coordinate, const BasicLayout<I>& layout) {
  return image<I>(coordinate, layout.shape(), layout.stride());
}

// Edit the modes of a layout like the elements of a tuple. Ranges are [begin, end). append() and prepend()
// extend a layout by a mode or, with `to_rank`, to this rank.
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
// Exchange the two levels of modes. For example, zip() turns ((A,a),(B,b)) into ((A,B),(a,b)), and two
// layouts into ((a0,b0),(a1,b1)).
template <class I>
BasicLayout<I> zip(const BasicLayout<I>& layout);
template <class I>
BasicLayout<I> zip(const BasicLayout<I>& a, LayoutArgument<I> b);

// Select modes: slice() returns the modes at which the coordinate is `_`, and dice() returns the other modes.
// The coordinate is a tiler without layouts, as in slice({_, 2}, l).
template <class I>
BasicLayout<I> slice(TilerArgument<I> coordinate, const BasicLayout<I>& layout);
template <class I>
BasicLayout<I> dice(TilerArgument<I> coordinate, const BasicLayout<I>& layout);
// Returns the offset of a coordinate; `_` counts as 0.
template <class I>
I slice_offset(TilerArgument<I> coordinate, const BasicLayout<I>& layout);

// Returns the same function with as few modes as possible. If a `profile` is given, its modes remain
// separate, and each of them is coalesced.
template <class I>
BasicLayout<I> coalesce(const BasicLayout<I>& layout);
template <class I>
BasicLayout<I> coalesce(const BasicLayout<I>& layout, TupleArgument<I> profile);
// Remove modes of stride 0. filter_zeros() replaces these modes with modes of size 1; filter() also removes
// these modes, by coalescing the layout.
template <class I>
BasicLayout<I> filter_zeros(const BasicLayout<I>& layout);
template <class I>
BasicLayout<I> filter(const BasicLayout<I>& layout);
template <class I>
BasicLayout<I> filter(const BasicLayout<I>& layout, TupleArgument<I> profile);

// Returns the layout R with R(c) = a(b(c)). R is compatible with `b`. If `b` is a tuple, the composition is
// mode by mode, and further modes of `a` are dropped. If a stride of `b` is less than the size of a mode of
// `a` and does not divide this size, the mode is rounded up. CuTe also rounds the mode up for tiles that
// exceed the shape. The composition assumes that divisions of unknown values have no remainder.
template <class I>
BasicLayout<I> composition(const BasicLayout<I>& a, TilerArgument<I> b);
// Returns a layout of the offsets that `layout` omits, in ascending order. `cotarget`, a size or a shape, is
// the limit of the offsets. If there are several modes, their strides must be known.
template <class I>
BasicLayout<I> complement(const BasicLayout<I>& layout, TupleArgument<I> cotarget);
template <class I>
BasicLayout<I> complement(const BasicLayout<I>& layout);
// Returns the largest layout R with layout(R(i)) = i. Modes with unknown strides are omitted.
template <class I>
BasicLayout<I> right_inverse(const BasicLayout<I>& layout);
// Returns a layout L with layout(L(layout(i))) = layout(i).
template <class I>
BasicLayout<I> left_inverse(const BasicLayout<I>& layout);
// Returns the layout of the coordinates for which `layout` is 0.
template <class I>
BasicLayout<I> nullspace(const BasicLayout<I>& layout);

// Divide a layout into tiles. logical_divide() splits each mode into (tile, rest), zipped_divide() gathers
// the parts as ((tiles),(rests)), tiled_divide() unpacks the rests, and flat_divide() unpacks both tuples.
template <class I>
BasicLayout<I> logical_divide(const BasicLayout<I>& layout, TilerArgument<I> tiler);
template <class I>
BasicLayout<I> zipped_divide(const BasicLayout<I>& layout, TilerArgument<I> tiler);
template <class I>
BasicLayout<I> tiled_divide(const BasicLayout<I>& layout, TilerArgument<I> tiler);
template <class I>
BasicLayout<I> flat_divide(const BasicLayout<I>& layout, TilerArgument<I> tiler);

// Repeat a block. The modes of the result are (block, repetitions), in the four forms described for divides.
template <class I>
BasicLayout<I> logical_product(const BasicLayout<I>& block, TilerArgument<I> tiler);
template <class I>
BasicLayout<I> zipped_product(const BasicLayout<I>& block, TilerArgument<I> tiler);
template <class I>
BasicLayout<I> tiled_product(const BasicLayout<I>& block, TilerArgument<I> tiler);
template <class I>
BasicLayout<I> flat_product(const BasicLayout<I>& block, TilerArgument<I> tiler);
// Repeat a block mode by mode. Each mode of blocked_product()'s result is (block, repetition).
// raked_product() interleaves the repetitions, so each mode of its result is (repetition, block).
template <class I>
BasicLayout<I> blocked_product(const BasicLayout<I>& block, LayoutArgument<I> tiler);
template <class I>
BasicLayout<I> raked_product(const BasicLayout<I>& block, LayoutArgument<I> tiler);
// Repeat the block until it fills a shape. The repetitions run along mode 0 first, or in the given order, as
// for make_ordered_layout().
template <class I>
BasicLayout<I> tile_to_shape(const BasicLayout<I>& block, TupleArgument<I> shape);
template <class I>
BasicLayout<I> tile_to_shape(const BasicLayout<I>& block, TupleArgument<I> shape, const IntTuple& order);

// Return the largest layout R with a(R(i)) = b(R(i)) = i, and its size, which is the number of elements that
// are contiguous in both layouts.
template <class I>
BasicLayout<I> max_common_layout(const BasicLayout<I>& a, LayoutArgument<I> b);
template <class I>
I max_common_vector(const BasicLayout<I>& a, LayoutArgument<I> b);
// Returns the largest n for which upcast(layout, n) succeeds.
template <class I>
int64_t max_alignment(const BasicLayout<I>& layout);

// Return the layout in units of elements that are n times as wide (upcast) or n times as narrow (downcast),
// or with another element width in bits (recast). Unknown strides are assumed to be multiples of n.
template <class I>
BasicLayout<I> upcast(const BasicLayout<I>& layout, int64_t n);
template <class I>
BasicLayout<I> downcast(const BasicLayout<I>& layout, int64_t n);
template <class I>
BasicLayout<I> recast(const BasicLayout<I>& layout, int64_t from_bits, int64_t to_bits);

}  // namespace ptxbuilder
