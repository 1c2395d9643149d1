// Tiles in shared memory: where each row and panel lies, and what a copy or a matrix instruction needs to
// know of it.
#pragma once

#include <memory>

#include "ptxbuilder/ir/instructions.h"
#include "ptxbuilder/layout/swizzle.h"
#include "ptxbuilder/plan/elements.h"

namespace ptxbuilder {

inline constexpr Swizzle SwizzleNone = Swizzle::none, Swizzle32B = Swizzle::b32, Swizzle64B = Swizzle::b64,
                         Swizzle128B = Swizzle::b128;

struct TileShape {
  int rows, cols;  // cols are contiguous
  // Without swizzle: the columns of a panel, which divide cols; 0 for the whole row. wgmma reads such tiles
  // in panels of 16 bytes.
  int panel_cols = 0;
};

enum class ClusterAxis : uint8_t { x, y, z };

// Some of a cluster's axes: ClusterAxis::x | ClusterAxis::y.
class ClusterAxes {
 public:
  constexpr ClusterAxes() = default;
  constexpr ClusterAxes(ClusterAxis axis)
      : bits_(1u << static_cast<unsigned>(axis)) {}  // NOLINT: one of them
  constexpr bool empty() const { return bits_ == 0; }
  constexpr bool has(size_t axis) const { return (bits_ >> axis & 1) != 0; }  // 0 x, 1 y, 2 z
  friend constexpr ClusterAxes operator|(ClusterAxes a, ClusterAxes b) {
    a.bits_ |= b.bits_;
    return a;
  }

 private:
  unsigned bits_ = 0;
};
constexpr ClusterAxes operator|(ClusterAxis a, ClusterAxis b) { return ClusterAxes(a) | ClusterAxes(b); }

// What the L2 cache is to do with lines that a copy touches, when it needs room (PTX ISA, createpolicy): give
// them up in their turn, first, as what nobody reads again, or last, as what many read.
enum class Eviction : uint8_t { normal, first, last };

class SharedTile;
class Stage;
class CopyView;
class LoadView;

// One stage of a tile, whole or some of its rows, at an address known on the device: a place.
class TileView {
 public:
  // `count` rows from `first`, a multiple of 8 so that the swizzle's pattern starts anew.
  TileView rows(u32 first, int count, Where where = Where::here()) const;
  // `count` columns from `first`, whole panels.
  TileView cols(u32 first, int count, Where where = Where::here()) const;
  // The same bytes read with rows and columns exchanged, as a wgmma operand stored along m or n.
  TileView transposed() const;
  // How copies go is no part of the place: each of these yields a view that copies alone take.
  //
  // Loads by TMA fetch this view once for all CTAs of the cluster along `axes`, one or more: each fetches its
  // part of the rows, for all of them. Every one of the CTAs expects the bytes of the whole view. With one
  // CTA along the axes it is a plain load.
  LoadView multicast(ClusterAxes axes) const;
  // Loads into this view complete on `barrier`. The caller arrives there and expects their bytes; or, with
  // expecting(), each load does so itself, for all of the view.
  LoadView on(smem barrier) const;
  LoadView expecting(smem barrier) const;
  // What loads by TMA into this view find outside the tensor: zeros unless said, or NaN, of f16, bf16, tf32,
  // f32 and f64. All loads by one tensor map find the same.
  LoadView outside(OobFill fill) const;
  // Copies by TMA from and to this view give L2 this hint; without, none.
  CopyView evict(Eviction eviction) const;
  // Copies by TMA from and to this view, and what expecting() expects of them, are for threads where
  // `condition` holds alone. Not for views of a pipeline's stage, which expects all of its bytes.
  CopyView when(pred condition) const;

  const SharedTile& tile() const { return *tile_; }
  smem address() const { return address_; }
  int row_count() const { return rows_; }
  // The tile that this is a view of, and where in it the view begins, where the host knows that; tile() has
  // the view's columns alone.
  const SharedTile& whole() const { return *whole_; }
  const std::optional<int>& first_row() const { return first_row_; }
  const std::optional<int>& first_col() const { return first_col_; }
  bool is_transposed() const { return transposed_; }
  int bytes() const;  // of its elements
  // (row, column), exchanged where the view is transposed -> element from its address: what all that compute
  // addresses evaluate. Throws Error where the view begins, or may begin, within the swizzle's pattern: then
  // no such layout is the swizzle of a sum.
  ComposedLayout layout(Where where = Where::here()) const;
  // Of a view of a pipeline's stage: the barrier that loads into it complete on, and who is told of each.
  const std::optional<smem>& stage_barrier() const { return stage_barrier_; }
  const std::shared_ptr<std::function<void(const LoadView&)>>& on_load() const { return on_load_; }

 private:
  friend class SharedTile;
  TileView(std::shared_ptr<const SharedTile> tile, smem address)
      : tile_(std::move(tile)), whole_(tile_), address_(address) {}

  std::shared_ptr<const SharedTile> tile_, whole_;
  smem address_;
  int rows_ = 0;
  std::optional<int> first_row_ = 0, first_col_ = 0;
  bool transposed_ = false;
  std::optional<smem> stage_barrier_;
  std::shared_ptr<std::function<void(const LoadView&)>> on_load_;
};

// A tile's plan: rows x cols elements, row-major in panels as wide as the swizzle's span (as the shape says
// without swizzle), each panel as TMA writes one box and wgmma reads it; `stages` of them in a row. Where an
// element lies is said by layout() alone.
class SharedTile {
 public:
  SharedTile(Builder& builder, DType dtype, TileShape shape, Swizzle swizzle, int stages, std::string name,
             Where where = Where::here());

  TileView operator[](u32 stage) const;
  TileView operator[](const Stage& stage) const;

  DType dtype() const { return dtype_; }
  int rows() const { return shape_.rows; }
  int cols() const { return shape_.cols; }
  Swizzle swizzle() const { return swizzle_; }
  int stages() const { return stages_; }
  // (row, column) -> element from the start of a stage; columns are (of a panel, panels).
  const ComposedLayout& layout() const { return layout_; }
  // Where an element lies before the swizzle, in bytes from the start of a stage.
  int linear_offset(int row, int col) const;
  int panels() const { return panels_; }
  int panel_cols() const { return shape_.cols / panels_; }
  int panel_row_bytes() const { return linear_offset(1, 0); }         // from a row of a panel to the next
  int panel_bytes() const { return linear_offset(0, panel_cols()); }  // from a panel to the next
  int stage_bytes() const { return shape_.rows * shape_.cols * size_of(dtype_); }
  uint32_t offset() const { return offset_; }  // from the start of dynamic shared memory
  bool operator==(const SharedTile& other) const {
    return owner_ == other.owner_ && offset_ == other.offset_;
  }

  std::string describe() const;  // "bf16 128x64 tile, 128 B swizzle"

 private:
  friend class TileView;         // cols() makes a narrower one
  void lay_out();                // sets what follows from the shape
  const Builder::State* owner_;  // the kernel's
  DType dtype_;
  TileShape shape_;
  Swizzle swizzle_;
  int stages_;
  ComposedLayout layout_;
  int panels_ = 1;
  uint32_t offset_ = 0;
};

}  // namespace ptxbuilder
