// Plans copies of tiles by TMA: the boxes that transfer a tile and their bytes, the encoding of the tensor
// map, and the place of each element in shared memory.
#pragma once

#include <optional>
#include <variant>

#include "ptxbuilder/error.h"
#include "ptxbuilder/layout/swizzle.h"
#include "ptxbuilder/plan/tma_boxes.h"

namespace ptxbuilder {

// The treatment of an extent that is greater than its tile but not a multiple of the tile.
enum class Rounding : uint8_t { refuse, down, up };

// Cuts the last dimensions into tiles, which become separate dimensions: (5,128,128) by {64,32} is
// (5,2,4,64,32). A dimension is smaller than its tile, a multiple of it, or rounded to a multiple.
struct TileTransform {
  std::vector<int64_t> tiling;
  Rounding rounding = Rounding::refuse;
};
// Dimension i of the result is dimension permutation[i].
struct TransposeTransform {
  std::vector<int> permutation;
};
// Merges the leading dimensions, one for each stride, into one, so that the tensor map has fewer dimensions.
// A copy takes one element along each merged dimension. The strides are the tensor's, in elements; the stride
// of the new dimension is their greatest common divisor.
struct CollapseLeading {
  std::vector<int64_t> strides;
};
// Removes dimensions that have only one element in the tensor.
struct DropUnit {
  std::vector<int> dimensions;
};
using CopyTransform = std::variant<TileTransform, TransposeTransform, CollapseLeading, DropUnit>;

// One dimension of a tensor after its transforms: an index counts steps of `step` elements
// along `dimension` of the tensor.
struct TensorMode {
  int64_t extent;
  int dimension;
  int64_t step;
  // For collapsed dimensions, used instead of TensorMode::dimension: one element along `dimension` of the
  // tensor is `steps` steps along the new dimension.
  struct Part {
    int dimension;
    int64_t steps;
    bool operator==(const Part&) const = default;
  };
  std::vector<Part> parts = {};
  bool operator==(const TensorMode&) const = default;
};
// The dimensions of a tensor, outermost first, after the transforms have been applied in order. Throws
// Error that names the transform and the extent that it does not fit.
std::vector<TensorMode> transform(const std::vector<int64_t>& extents,
                                  const std::vector<CopyTransform>& transforms, Where where = Where::here());

// A copy of a tile by TMA: how its tensor map is encoded, and where each element arrives.
class TensorCopy {
 public:
  // Copies a tile of `extents` elements, outermost first; the last dimension is contiguous in global
  // memory. The default swizzle is the widest that fits.
  //
  // The tensor map describes the tensor as it is without transforms, and rows wider than the swizzle's span
  // are stored as consecutive panels. With transforms, the map describes the transformed tensor, and the tile
  // is in shared memory in row-major order of the transformed dimensions. The last of these must be
  // contiguous and, with a swizzle, exactly as wide as its span. Throws Error that names the rule, the extent
  // and the limit.
  TensorCopy(DType type, std::vector<int64_t> extents, std::vector<CopyTransform> transforms = {},
             std::optional<Swizzle> swizzle = std::nullopt, Where where = Where::here());

  DType dtype() const { return dtype_; }
  Swizzle swizzle() const { return swizzle_; }
  const std::vector<int64_t>& extents() const { return extents_; }
  int bytes() const;  // of the tile: the bytes that a barrier must expect

  // The recipe with which the tensor map is encoded, innermost dimension first (signature.h).
  TensorMapRecipe recipe() const;
  int map_rank() const { return static_cast<int>(map_.size()); }
  int box_bytes() const;
  // The boxes, in one part unless divided() made several parts.
  const TmaBoxes& boxes() const { return boxes_; }

  // The same copy, divided into `parts` parts with the same number of boxes, one part for each CTA to fetch.
  // Throws Error when the boxes cannot be divided that way.
  TensorCopy divided(int parts, Where where = Where::here()) const;

  // Maps element (i, j, ...) of the tile to its place in shared memory, in elements. The layout has one
  // mode for each dimension of the tile. If transforms or panels split a dimension, its mode has several
  // parts, the innermost first.
  ComposedLayout shared_layout() const;

  // The shape and strides that the launch passes for a tensor of `extents` and `strides`, which are in
  // elements and outermost first. The result is innermost first: the shape, and the strides in bytes of all
  // dimensions but the innermost. Throws Error when a stride is not a multiple of 16 bytes, or that of the
  // last dimension is not 1.
  struct MappedTensor {
    std::vector<uint64_t> shape, strides;
  };
  MappedTensor map_tensor(const std::vector<int64_t>& extents, const std::vector<int64_t>& strides,
                          Where where = Where::here()) const;

  // The dimensions of the tensor map, outermost first: along which dimension of the tensor, and in which
  // steps, each coordinate counts.
  const std::vector<TensorMode>& map_modes() const { return map_; }

  std::string describe() const;  // "a copy of 128x64 bf16 in 1 box of 64x128"

 private:
  void choose_pieces();
  void place_boxes();

  DType dtype_;
  Swizzle swizzle_ = Swizzle::none;
  std::vector<int64_t> extents_;
  std::vector<CopyTransform> transforms_;
  std::vector<TensorMode> lies_;  // the tile's dimensions in shared memory, outermost first
  std::vector<TensorMode> map_;   // the tensor map's dimensions, outermost first
  std::vector<int64_t> pieces_;   // extents of a box along lies_
  std::vector<int64_t> box_;      // extents of a box along map_
  TmaBoxes boxes_;
};

}  // namespace ptxbuilder
