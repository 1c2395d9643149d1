// Defines tensors with nested modes, such as ((a,b),c). A coordinate may be a tuple, and the layout algebra
// computes slices and tiles.
//
//   TensorView x(px, DeviceLayout({{8, n}, 64}, {{64, ld}, 1}));  // ((8,n),64):((64,ld),1)
//   x({i, j}, k) = 1;                                  // element k of row i in part j
//   x(row, k) += 1;                                    // an integer counts through all parts of its mode
//   TensorView part = x.slice({{_, j}, _});            // (8,64)
//   load(x.tile({8, 32}, {row, col}).matrix(), layout) // a tile of 8 x 32: number `row` down, `col` across
#pragma once

#include "ptxbuilder/ir/global_tensor.h"
#include "ptxbuilder/plan/tensor_copy.h"

namespace ptxbuilder {

// The modes of a tensor, and the dimensions along which they run. Neighbouring integers of one mode form a
// single dimension if they are known on the host and the second continues where the first ends. For example,
// (8,4) with strides (64,512) is a dimension of 32 rows. The first dimension has stride 1, like the innermost
// dimension of a tensor map. The other dimensions follow in the order of the modes.
class TensorModes {
 public:
  explicit TensorModes(const DeviceLayout& tensor, Where where = Where::here());

  // Returns the shape of this view. Its strides are steps along the dimensions, as in
  // ((4,2),16):((1@1,1@2),1@0).
  const DeviceLayout& layout() const { return layout_; }
  size_t dimensions() const { return dimensions_.size(); }

  // Returns the modes at whose positions `at` has `_`. The other modes are fixed at the given coordinates.
  TensorModes slice(const DeviceTiler& at, Where where = Where::here()) const;
  // Divides the modes into tiles, as zipped_divide() does, and returns one tile. `at` is the tile's number
  // along each mode. Elements of the tile beyond the end of a dimension are outside the tensor.
  TensorModes tile(const DeviceTiler& tiler, const DeviceTuple& at, Where where = Where::here()) const;

  // Returns the coordinates of an element along the dimensions, innermost first.
  std::vector<Index> coordinates(const DeviceTuple& at, Where where = Where::here()) const;

  // Returns the shape and the strides of the tensor map for `tensor`, a layout with these modes, as
  // TensorCopy::map_tensor() does. Throws Error if an integer of `tensor` differs from an integer that these
  // modes have on the host, or if the tensor cannot have a tensor map.
  TensorCopy::MappedTensor map_tensor(const Layout& tensor, DType type, Where where = Where::here()) const;

  // The rows or the columns of a view with two modes.
  struct Axis {
    // A part of a mode: `count` elements along a dimension, each `step` after the previous one.
    struct Part {
      Index count;
      size_t dimension;
      Index step;
    };
    std::vector<Part> parts;  // the first varies fastest; empty for a mode of one element
  };
  // Throws Error unless there are two modes.
  std::array<Axis, 2> axes(std::string_view operation) const;
  const std::vector<Index>& corner() const { return corner_; }  // coordinates of the first element
  // Returns the number of elements along a dimension, and the distance between neighbours.
  const detail::Dimension& dimension(size_t i) const { return dimensions_[i]; }
  // Throws Error unless the tensor can have a tensor map.
  void check_mapped(std::string_view operation) const;

 private:
  TensorModes moved(DeviceLayout layout, const DeviceTuple& by) const;

  DeviceLayout tensor_, layout_;
  std::vector<detail::Dimension> dimensions_;
  std::vector<size_t> dimension_of_;  // dimension for each integer of the tensor's shape
  std::vector<Index> corner_;
};

namespace detail {
llvm::Value* element_of(llvm::Value* start, DType type, const TensorModes& modes, const DeviceTuple& at);
GlobalTile matrix_of(llvm::Value* start, DType type, const TensorModes& modes);
}  // namespace detail

// A tensor in global memory whose modes may be nested. Offsets have 64 bits; coordinates and strides have 32
// bits.
template <class T>
class TensorView {
 public:
  using element_type = T;

  // The pointer must be a multiple of 16 bytes, and the strides count elements.
  TensorView(gptr<T> start, const DeviceLayout& layout, Where where = Where::here())
      : start_(start), modes_(layout, where) {}

  const TensorModes& modes() const { return modes_; }
  const DeviceLayout& layout() const { return modes_.layout(); }

  // Returns one element, given a coordinate for each mode. Coordinates are not checked against the extents.
  Element<T> operator()(const DeviceTuple& a, Where where = Where::here()) const {
    return element(DeviceTuple{a}, where);
  }
  Element<T> operator()(const DeviceTuple& a, const DeviceTuple& b, Where where = Where::here()) const {
    return element(DeviceTuple{a, b}, where);
  }
  Element<T> operator()(const DeviceTuple& a, const DeviceTuple& b, const DeviceTuple& c,
                        Where where = Where::here()) const {
    return element(DeviceTuple{a, b, c}, where);
  }

  // These functions work like those of TensorModes.
  TensorView slice(const DeviceTiler& at, Where where = Where::here()) const {
    return TensorView(start_, modes_.slice(at, where));
  }
  TensorView tile(const DeviceTiler& tiler, const DeviceTuple& at, Where where = Where::here()) const {
    return TensorView(start_, modes_.tile(tiler, at, where));
  }

  // Returns this view of two modes as a matrix for register tiles, which skip elements outside the tensor.
  // Throws Error unless each mode runs along one dimension.
  TensorTile<T> matrix(Where where = Where::here()) const {
    AtLine line(where);
    return {detail::matrix_of(start_.handle(), T::dtype, modes_)};
  }

 private:
  TensorView(gptr<T> start, TensorModes modes) : start_(start), modes_(std::move(modes)) {}

  Element<T> element(const DeviceTuple& at, Where where) const {
    AtLine line(where);
    return {detail::element_of(start_.handle(), T::dtype, modes_, at), where};
  }

  gptr<T> start_;
  TensorModes modes_;
};

template <class T>
TensorView(gptr<T>, const DeviceLayout&) -> TensorView<T>;

}  // namespace ptxbuilder
