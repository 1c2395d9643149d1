// Defines nested tuples of integers and CuTe's functions for such tuples. Shapes, strides and coordinates of
// layouts are nested tuples.
#pragma once

#include <concepts>
#include <initializer_list>
#include <type_traits>
#include <utility>
#include <vector>

#include "ptxbuilder/layout/integer.h"

namespace ptxbuilder {

// An integer, or a tuple of integers and tuples, such as 4, (4,8) or (4,(2,4)).
//
// Braces always make a tuple: IntTuple t = 4 is an integer, whereas IntTuple{4} is the tuple (4) of one
// element. Use parentheses, not braces, to copy a tuple.
//
// In a stride, an integer may scale a basis vector of a coordinate space, as for TMA coordinates: 2@1 means a
// step of (0,2), and 3@0@1 means a step of (0,(3)).
template <class I>
class BasicTuple {
 public:
  BasicTuple() : value_(int64_t{0}) {}
  template <std::convertible_to<I> T>
  BasicTuple(T value) : value_(std::move(value)) {}  // NOLINT: implicit
  BasicTuple(std::initializer_list<BasicTuple> elements) : BasicTuple(std::vector<BasicTuple>(elements)) {}
  // Throws Error if the vector is empty.
  explicit BasicTuple(std::vector<BasicTuple> elements);

  bool is_tuple() const { return !elements_.empty(); }
  // Returns the integer. Throws Error for a tuple.
  const I& value() const;
  // Returns the elements of a tuple, or an empty vector for an integer.
  const std::vector<BasicTuple>& elements() const { return elements_; }
  // Returns element i; for an integer, element 0 is the integer itself. Throws Error if i is out of range.
  const BasicTuple& operator[](size_t i) const;

  // Returns the modes that lead to the basis vector, outermost first. The result is empty for an ordinary
  // integer.
  const std::vector<int>& basis() const { return basis_; }
  BasicTuple scaled_to(std::vector<int> basis) const;

 private:
  I value_;
  std::vector<int> basis_;
  std::vector<BasicTuple> elements_;
};

// A tuple of host integers.
using IntTuple = BasicTuple<int64_t>;

// Excludes a parameter from the deduction of I, so that its argument converts to the type that the other
// parameters determine.
template <class I>
using TupleArgument = const std::type_identity_t<BasicTuple<I>>&;

// Returns whether two tuples have the same structure and equal integers. Two unknown integers never count as
// equal.
template <class I>
bool operator==(const BasicTuple<I>& a, const BasicTuple<I>& b);

// Returns a string such as "(4,(2,4))". As in CuTe, the modes of a basis are printed innermost first, as in
// 3@0@1.
template <class I>
std::string to_string(const BasicTuple<I>& tuple);

template <class I>
int rank(const BasicTuple<I>& tuple);  // returns 1 for an integer
template <class I>
int depth(const BasicTuple<I>& tuple);  // returns 0 for an integer
template <class I>
I size(const BasicTuple<I>& shape);  // returns the product of all integers
template <class I>
BasicTuple<I> flatten(const BasicTuple<I>& tuple);  // returns an integer unchanged

// Returns the integers from left to right.
template <class I>
std::vector<BasicTuple<I>> leaves(const BasicTuple<I>& tuple);

// Returns whether two tuples have the same structure.
template <class I>
bool congruent(const BasicTuple<I>& a, const BasicTuple<I>& b);
// Returns whether `b` has the structure of `a`, except that `b` may have tuples in place of integers of `a`.
template <class I>
bool weakly_congruent(const BasicTuple<I>& a, const BasicTuple<I>& b);
// Returns whether every coordinate into shape `a` is a coordinate into shape `b`. Throws Error if the answer
// depends on an unknown value.
template <class I>
bool compatible(const BasicTuple<I>& a, const BasicTuple<I>& b);

// Return strides that make a shape compact. The modes are laid out from the left, so that the first mode is
// contiguous, or from the right. The contiguous mode has stride `current`, and modes of size 1 have stride 0.
template <class I>
BasicTuple<I> compact_column_major(const BasicTuple<I>& shape, std::type_identity_t<I> current = int64_t{1});
template <class I>
BasicTuple<I> compact_row_major(const BasicTuple<I>& shape, std::type_identity_t<I> current = int64_t{1});
// Returns compact strides whose order follows `order`, which must be weakly congruent to the shape. For
// example, (2,3,4) with (2,0,1) yields (12,1,3).
template <class I>
BasicTuple<I> compact_order(const BasicTuple<I>& shape, const IntTuple& order);
// Returns strides that map every coordinate to itself, such as (1@0,1@1) for (4,8).
template <class I>
BasicTuple<I> basis_like(const BasicTuple<I>& shape);

// Return the offset of a coordinate. An integer is converted to a coordinate of the shape, leftmost mode
// first; a tuple is evaluated mode by mode. The strides must not have a basis. If no strides are given, the
// strides are compact from the left.
template <class I = int64_t>
I crd2idx(TupleArgument<I> coordinate, TupleArgument<I> shape, TupleArgument<I> stride);
template <class I = int64_t>
I crd2idx(TupleArgument<I> coordinate, TupleArgument<I> shape);
// Returns the image of a coordinate: another coordinate if the strides have a basis, and an offset otherwise.
template <class I = int64_t>
BasicTuple<I> image(TupleArgument<I> coordinate, TupleArgument<I> shape, TupleArgument<I> stride);
// Return the coordinate of an index. If strides are given, each mode of the result is (index / stride) %
// shape.
template <class I = int64_t>
BasicTuple<I> idx2crd(TupleArgument<I> index, TupleArgument<I> shape);
template <class I = int64_t>
BasicTuple<I> idx2crd(TupleArgument<I> index, TupleArgument<I> shape, TupleArgument<I> stride);
// Returns the coordinate in `to` that has the same index as `coordinate` has in `from`.
template <class I = int64_t>
BasicTuple<I> crd2crd(TupleArgument<I> coordinate, TupleArgument<I> from, TupleArgument<I> to);

// Returns ceil(a / b). Two tuples are divided mode by mode. If only `a` is a tuple, its modes are divided
// from the left, and each mode reduces the divisor for the next mode.
template <class I>
BasicTuple<I> ceil_div(const BasicTuple<I>& a, TupleArgument<I> b);

}  // namespace ptxbuilder
