// Plans TMA copies of tiles: the boxes that transfer a tile and their sizes, the encoding of the tensor map,
// and the address of each element in shared memory.
#pragma once

#include <optional>
#include <variant>

#include "ptxbuilder/error.h"
#include "ptxbuilder/layout/swizzle.h"
#include "ptxbuilder/plan/tma_boxes.h"

namespace ptxbuilder {

// Determines how to treat an extent that is greater than its tile but not a multiple of the tile.
enum class Rounding : uint8_t { refuse, down, up };

// Cuts the last dimensions into tiles, which become separate dimensions. For example, tiles of {64,32} turn
// (5,128,128) into (5,2,4,64,32). An extent must be smaller than its tile or a multiple of the tile, unless
// `rounding` rounds it to a multiple.
struct TileTransform {
  std::vector<int64_t> tiling;
  Rounding rounding = Rounding::refuse;
};
// Permutes dimensions: dimension i of the result is dimension permutation[i] of the input.
struct TransposeTransform {
  std::vector<int> permutation;
};
// Merges leading dimensions into one, so that the tensor map has fewer dimensions. `strides` holds the
// tensor's stride for each merged dimension, in elements. A copy transfers one element along each merged
// dimension. The stride of the new dimension is the greatest common divisor of the strides.
struct CollapseLeading {
  std::vector<int64_t> strides;
};
// Removes dimensions in which the tensor has only one element.
struct DropUnit {
  std::vector<int> dimensions;
};
using CopyTransform = std::variant<TileTransform, TransposeTransform, CollapseLeading, DropUnit>;

// A dimension of a tensor after its transforms. An index along this dimension counts steps of `step` elements
// along `dimension` of the original tensor.
struct TensorMode {
  int64_t extent;
  int dimension;
  int64_t step;
  // A dimension of the tensor that was merged into a collapsed dimension, for which TensorMode::dimension is
  // not used. One element along `dimension` of the tensor equals `steps` steps along the collapsed dimension.
  struct Part {
    int dimension;
    int64_t steps;
    bool operator==(const Part&) const = default;
  };
  std::vector<Part> parts = {};
  bool operator==(const TensorMode&) const = default;
};
// Returns the dimensions of a tensor after the transforms, outermost first. The transforms are applied in
// order. If a transform does not fit an extent, the function throws an Error that names the transform and the
// extent.
std::vector<TensorMode> transform(const std::vector<int64_t>& extents,
                                  const std::vector<CopyTransform>& transforms, Where where = Where::here());

// A TMA copy of a tile: the encoding of its tensor map, and the address at which each element is stored.
class TensorCopy {
 public:
  // Plans the copy of a tile. `extents` are in elements, outermost first. The last dimension must be
  // contiguous in global memory. The default swizzle is the widest that fits.
  //
  // If there are no transforms, the tensor map describes the original tensor, and rows that are wider than
  // the swizzle's span are stored as consecutive panels. Otherwise, the map describes the transformed tensor,
  // and the tile in shared memory is in row-major order of the transformed dimensions. The last transformed
  // dimension must be contiguous and, if there is a swizzle, exactly as wide as the swizzle's span. If the
  // copy is not possible, throws an Error that names the rule, the extent and the limit.
  TensorCopy(DType type, std::vector<int64_t> extents, std::vector<CopyTransform> transforms = {},
             std::optional<Swizzle> swizzle = std::nullopt, Where where = Where::here());

  DType dtype() const { return dtype_; }
  Swizzle swizzle() const { return swizzle_; }
  const std::vector<int64_t>& extents() const { return extents_; }
  int bytes() const;  // size of the tile; a barrier must expect this number of bytes

  // Returns the recipe that determines the encoding of the tensor map, innermost dimension first
  // (signature.h).
  TensorMapRecipe recipe() const;
  int map_rank() const { return static_cast<int>(map_.size()); }
  int box_bytes() const;
  // Returns the boxes, which form a single part unless divided() has returned this copy.
  const TmaBoxes& boxes() const { return boxes_; }

  // Returns the same copy, divided into `parts` parts with equal numbers of boxes, one part for each CTA.
  // Throws Error if the boxes cannot be divided in this way.
  TensorCopy divided(int parts, Where where = Where::here()) const;

  // Returns the layout that maps element (i, j, ...) of the tile to its position in shared memory, in
  // elements. The layout has one mode for each dimension of the tile. If transforms or panels split a
  // dimension, the dimension's mode has several parts, innermost first.
  ComposedLayout shared_layout() const;

  // The shape and strides that a launch passes for a tensor, innermost first. Strides are in bytes, and there
  // is no stride for the innermost dimension. map_tensor() computes them from `extents` and `strides`, which
  // are in elements and outermost first. It throws Error if a stride is not a multiple of 16 bytes, or if the
  // stride of the last dimension is not 1.
  struct MappedTensor {
    std::vector<uint64_t> shape, strides;
  };
  MappedTensor map_tensor(const std::vector<int64_t>& extents, const std::vector<int64_t>& strides,
                          Where where = Where::here()) const;

  // Returns the dimensions of the tensor map, outermost first. Each mode describes one coordinate of the map:
  // the tensor's dimension along which the coordinate counts, and the size of a step.
  const std::vector<TensorMode>& map_modes() const { return map_; }

  std::string describe() const;  // such as "a copy of 128x64 bf16 in 1 box of 64x128"

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
