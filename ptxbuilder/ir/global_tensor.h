// Defines tensors in global memory. A tensor consists of a pointer, a shape and strides. Extents and strides
// may be host integers or device values.
//
//   GlobalTensor x(px, {m, n});           // rows of n elements, without gaps; m and n: host integers or u32
//   GlobalTensor w(pw, {k, n}, {1, ld});  // strides in elements: host integers, u32 or u64
//   x(i, j) += 1;                         // an element: read, written, or both
//   GlobalTensor row = x(i, _);           // a slice, of rank 1
//   load(x.tile(i, j), layout)            // elements outside the tensor are not read (registers/memory.h)
//
// Coordinates and extents are below 2^31, and offsets have 64 bits, so a tensor may have any size. (An offset
// that a DeviceLayout computes has 32 bits.)
#pragma once

#include "ptxbuilder/ir/index.h"
#include "ptxbuilder/ir/memory.h"

namespace ptxbuilder {

// The number of elements that one step along a dimension adds to the offset. A stride that is known on the
// host may be negative.
class Stride {
 public:
  template <detail::HostInteger I>
  Stride(I elements) : known_(Index(elements).known()) {}  // NOLINT: host integers are known
  Stride(u32 elements);                                    // NOLINT
  Stride(u64 elements);                                    // NOLINT
  Stride(const Index& elements);                           // NOLINT

  std::optional<int64_t> known() const { return known_; }
  // Returns the offset of `coordinate` steps, in elements.
  u64 times(const Index& coordinate) const;
  friend Stride operator*(const Stride& stride, const Index& extent);

  // Returns the greatest power of two that is known to divide the stride, at most 64.
  int divisor() const;

 private:
  // Set if the stride is known. Otherwise narrow_ or wide_ is set. The product of a coordinate and a narrow_
  // stride is computed in 64 bits with one instruction.
  std::optional<int64_t> known_;
  std::optional<u32> narrow_;
  std::optional<u64> wide_;
};

// A coordinate with the caller's line.
struct TensorCoordinate {
  Index index;
  Where where;

  template <detail::HostInteger I>
  TensorCoordinate(I value, Where where = Where::here())
      : index(u32(value, where)), where(where) {}  // NOLINT
  template <class I>
  requires(std::convertible_to<const I&, u32> && !std::integral<I>)
      TensorCoordinate(const I& value, Where where = Where::here())
      : index(u32(value)), where(where) {}  // NOLINT
};

// A matrix in global memory, such as a part of a tensor. If `rows` and `cols` are set, elements beyond them
// are neither read nor written. If one of the two is not positive, no element is read or written.
struct GlobalTile {
  gmem address;
  Stride row_stride, col_stride = 1;
  std::optional<s32> rows = {}, cols = {};
  // The greatest number of elements, a power of two, that one access may cover along the dimension of stride
  // 1. The address, the other stride and, if the dimension is bounded, its extent are multiples of this
  // number.
  int vector = 1;
};

// A tile with elements of type T.
template <class T>
struct TensorTile : GlobalTile {};

namespace detail {

struct Dimension {
  Dimension(const Index& size, const Stride& stride);

  Index size;
  Stride stride;
  int size_divisor, stride_divisor;  // powers of two
};

std::vector<Dimension> dimensions(std::span<const Index> shape, std::span<const Stride> strides);
std::vector<Dimension> packed_dimensions(std::span<const Index> shape);
void promise_multiples(std::vector<Dimension>& dimensions, int elements);
// Returns the address at the given coordinates.
llvm::Value* tensor_address(llvm::Value* start, DType element, std::span<const Dimension> dimensions,
                            std::span<const std::optional<TensorCoordinate>> at);
int divisor_of(const Index& index);
GlobalTile tensor_tile(llvm::Value* start, DType element, std::span<const Dimension> matrix, int aligned,
                       const TensorCoordinate& row, const TensorCoordinate& col, bool bounded);

template <size_t>
using CoordinateOf = TensorCoordinate;

}  // namespace detail

// A tensor of `rank` dimensions: x(i, j) is start[i * strides[0] + j * strides[1]]. In a row-major tensor,
// the outermost dimension comes first.
template <class T, size_t rank, class = std::make_index_sequence<rank>>
class GlobalTensor;

template <class T, size_t rank_, size_t... modes>
class GlobalTensor<T, rank_, std::index_sequence<modes...>> {
 public:
  using element_type = T;
  static constexpr size_t rank = rank_;

  // The pointer must be a multiple of 16 bytes. If no strides are given, the tensor is row-major without
  // gaps.
  GlobalTensor(gptr<T> start, const Index (&shape)[rank_], const Stride (&strides)[rank_])
      : start_(start), dimensions_(detail::dimensions(shape, strides)) {}
  GlobalTensor(gptr<T> start, const Index (&shape)[rank_])
      : start_(start), dimensions_(detail::packed_dimensions(shape)) {}

  // Return the extent of a mode, and the distance between its neighbouring coordinates, in elements.
  const Index& size(size_t mode) const { return dimensions_[mode].size; }
  const Stride& stride(size_t mode) const { return dimensions_[mode].stride; }
  gptr<T> start() const { return start_; }

  // Returns the tensor with the author's guarantee that device strides, and a device extent along the
  // dimension of stride 1, are multiples of `elements`, a power of two. One access to a tile may then cover
  // this number of elements, up to 16 bytes. Throws Error if a known extent, or a known stride other than 1,
  // is not a multiple of `elements`.
  GlobalTensor multiples_of(int elements, Where where = Where::here()) const {
    CallersLine line(where);
    GlobalTensor x = *this;
    detail::promise_multiples(x.dimensions_, elements);
    return x;
  }

  // Returns one element. The coordinates are not checked against the extents.
  Element<T> operator()(detail::CoordinateOf<modes>... at) const {
    const std::array<std::optional<TensorCoordinate>, rank_> all = {at...};
    return {detail::tensor_address(start_.handle(), T::dtype, dimensions_, all), all[0]->where};
  }
  // Returns a slice, which has the dimensions at whose positions `_` is passed.
  template <class... C>
  requires(sizeof...(C) == rank_ && (std::same_as<C, Underscore> || ...) &&
           ((std::same_as<C, Underscore> || std::convertible_to<C, TensorCoordinate>)&&...)) auto
  operator()(C... at) const {
    constexpr size_t kept = (size_t{std::same_as<C, Underscore>} + ...);
    const std::array<std::optional<TensorCoordinate>, rank_> fixed = {coordinate(at)...};
    return GlobalTensor<T, kept>(*this, fixed);
  }

  // Returns the transposed tensor: its element (j, i) is element (i, j) of this tensor.
  GlobalTensor transposed() const requires(rank_ == 2) {
    GlobalTensor x = *this;
    std::swap(x.dimensions_[0], x.dimensions_[1]);
    return x;
  }
  // Return a vector as a matrix with one row, or with one column.
  GlobalTensor<T, 2> as_row() const requires(rank_ == 1) { return {*this, 0}; }
  GlobalTensor<T, 2> as_col() const requires(rank_ == 1) { return {*this, 1}; }

  // Returns the matrix that begins at (row, col), for register tiles and tiled copies, which skip elements
  // outside the tensor.
  TensorTile<T> tile(TensorCoordinate row, TensorCoordinate col) const requires(rank_ == 2) {
    return {detail::tensor_tile(start_.handle(), T::dtype, dimensions_, aligned_, row, col, true)};
  }
  // Returns the matrix without bounds: the author guarantees that all accessed elements are inside the
  // tensor.
  TensorTile<T> inner_tile(TensorCoordinate row, TensorCoordinate col) const requires(rank_ == 2) {
    return {detail::tensor_tile(start_.handle(), T::dtype, dimensions_, aligned_, row, col, false)};
  }

 private:
  template <class, size_t, class>
  friend class GlobalTensor;

  // Constructs a slice of a tensor with more dimensions.
  template <size_t whole>
  GlobalTensor(const GlobalTensor<T, whole>& x,
               const std::array<std::optional<TensorCoordinate>, whole>& fixed)
      : start_(detail::tensor_address(x.start_.handle(), T::dtype, x.dimensions_, fixed)),
        aligned_(x.aligned_) {
    for (size_t i = 0; i < whole; ++i)
      if (!fixed[i])
        dimensions_.push_back(x.dimensions_[i]);
      else
        aligned_ = std::min(aligned_, detail::divisor_of(fixed[i]->index) * x.dimensions_[i].stride_divisor);
  }

  // Constructs a matrix from a vector, by adding a dimension of one element at position `beside`.
  GlobalTensor(const GlobalTensor<T, 1>& vector, ptrdiff_t beside)
      : start_(vector.start_), dimensions_(vector.dimensions_), aligned_(vector.aligned_) {
    dimensions_.insert(dimensions_.begin() + beside, detail::Dimension(1, 0));
  }

  static std::optional<TensorCoordinate> coordinate(Underscore) { return std::nullopt; }
  static std::optional<TensorCoordinate> coordinate(const TensorCoordinate& at) { return at; }

  gptr<T> start_;
  std::vector<detail::Dimension> dimensions_;
  int aligned_ = 16 / size_of(T::dtype);  // the start is aligned to this many elements, a power of two
};

template <class T, size_t rank>
GlobalTensor(gptr<T>, const Index (&)[rank]) -> GlobalTensor<T, rank>;
template <class T, size_t rank>
GlobalTensor(gptr<T>, const Index (&)[rank], const Stride (&)[rank]) -> GlobalTensor<T, rank>;

}  // namespace ptxbuilder
