// Plans copies of tiles by TMA: the boxes that transfer a tile and their sizes, the encoding of the tensor
// map, and the address of each element in shared memory.
#pragma once

#include <optional>
#include <variant>

#include "ptxbuilder/error.h"
#include "ptxbuilder/layout/swizzle.h"
#include "ptxbuilder/plan/tma_boxes.h"

namespace ptxbuilder {

// Determines what happens to an extent that is greater than its tile but not a multiple of it.
enum class Rounding : uint8_t { refuse, down, up };

// Cuts the last dimensions into tiles, which become separate dimensions: tiles of {64,32} turn (5,128,128)
// into (5,2,4,64,32). A dimension must be smaller than its tile or a multiple of it, or else is rounded to a
// multiple.
struct TileTransform {
  std::vector<int64_t> tiling;
  Rounding rounding = Rounding::refuse;
};
// Dimension i of the result is dimension permutation[i].
struct TransposeTransform {
  std::vector<int> permutation;
};
// Merges as many leading dimensions as there are strides into one, so that the tensor map has fewer
// dimensions. A copy takes one element along each merged dimension. The strides are the tensor's, in
// elements; the stride of the new dimension is their greatest common divisor.
struct CollapseLeading {
  std::vector<int64_t> strides;
};
// Removes dimensions in which the tensor has only one element.
struct DropUnit {
  std::vector<int> dimensions;
};
using CopyTransform = std::variant<TileTransform, TransposeTransform, CollapseLeading, DropUnit>;

// A dimension of a tensor after its transforms: its index counts steps of `step` elements along `dimension`
// of the tensor.
struct TensorMode {
  int64_t extent;
  int dimension;
  int64_t step;
  // Replaces TensorMode::dimension for collapsed dimensions: one element along `dimension` of the tensor
  // equals `steps` steps along the new dimension.
  struct Part {
    int dimension;
    int64_t steps;
    bool operator==(const Part&) const = default;
  };
  std::vector<Part> parts = {};
  bool operator==(const TensorMode&) const = default;
};
// Returns the dimensions of a tensor after the transforms, which are applied in order, outermost first.
// Throws Error that names the transform and the extent that it does not fit.
std::vector<TensorMode> transform(const std::vector<int64_t>& extents,
                                  const std::vector<CopyTransform>& transforms, Where where = Where::here());

// A copy of a tile by TMA: the encoding of its tensor map, and the address at which each element arrives.
class TensorCopy {
 public:
  // Copies a tile whose extents, in elements, are listed outermost first; the last dimension is contiguous in
  // global memory. The default swizzle is the widest that fits.
  //
  // If there are no transforms, the tensor map describes the tensor as it is, and rows that are wider than
  // the swizzle's span are stored as consecutive panels. With transforms, the map describes the transformed
  // tensor, and the tile has row-major order of the transformed dimensions in shared memory. The last of
  // these must be contiguous and, with a swizzle, exactly as wide as its span. Throws Error that names the
  // rule, the extent and the limit.
  TensorCopy(DType type, std::vector<int64_t> extents, std::vector<CopyTransform> transforms = {},
             std::optional<Swizzle> swizzle = std::nullopt, Where where = Where::here());

  DType dtype() const { return dtype_; }
  Swizzle swizzle() const { return swizzle_; }
  const std::vector<int64_t>& extents() const { return extents_; }
  int bytes() const;  // bytes of the tile, which a barrier must expect

  // Returns the recipe with which the tensor map is encoded, innermost dimension first (signature.h).
  TensorMapRecipe recipe() const;
  int map_rank() const { return static_cast<int>(map_.size()); }
  int box_bytes() const;
  // Returns the boxes, in one part unless divided() made several parts.
  const TmaBoxes& boxes() const { return boxes_; }

  // Returns the same copy, divided into `parts` parts with the same number of boxes; each CTA fetches one
  // part. Throws Error if the boxes cannot be divided in this way.
  TensorCopy divided(int parts, Where where = Where::here()) const;

  // Maps element (i, j, ...) of the tile to its position in shared memory, in elements. The layout has one
  // mode for each dimension of the tile. If transforms or panels split a dimension, its mode has several
  // parts, innermost first.
  ComposedLayout shared_layout() const;

  // The shape and strides that the launch passes for a tensor of `extents` and `strides`, which are in
  // elements and outermost first. The result is innermost first, and has no stride for the innermost
  // dimension; other strides are in bytes. Throws Error if a stride is not a multiple of 16 bytes, or if the
  // stride of the last dimension is not 1.
  struct MappedTensor {
    std::vector<uint64_t> shape, strides;
  };
  MappedTensor map_tensor(const std::vector<int64_t>& extents, const std::vector<int64_t>& strides,
                          Where where = Where::here()) const;

  // Returns the dimensions of the tensor map, outermost first: the dimension of the tensor along which each
  // coordinate counts, and in which steps.
  const std::vector<TensorMode>& map_modes() const { return map_; }

  std::string describe() const;  // "a copy of 128x64 bf16 in 1 box of 64x128"

 private:
  void choose_pieces();
  void place_boxes();

  DType dtype_;
  Swizzle swizzle_ = Swizzle::none;
  std::vector<int64_t> extents_;
  std::vector<CopyTransform> transforms_;
  std::vector<TensorMode> lies_;  // dimensions of the tile in shared memory, outermost first
  std::vector<TensorMode> map_;   // dimensions of the tensor map, outermost first
  std::vector<int64_t> pieces_;   // extents of a box along lies_
  std::vector<int64_t> box_;      // extents of a box along map_
  TmaBoxes boxes_;
};

}  // namespace ptxbuilder
