// Tiles in shared memory: the places of their rows and panels, and what copies and matrix instructions need
// to know.
#pragma once

#include <memory>

#include "ptxbuilder/ir/typed_calls.h"
#include "ptxbuilder/layout/swizzle.h"
#include "ptxbuilder/plan/elements.h"

namespace ptxbuilder {

// The four swizzles of TMA and wgmma, named after the bytes that one pattern spans.
inline constexpr Swizzle SwizzleNone = Swizzle::none, Swizzle32B = Swizzle::b32, Swizzle64B = Swizzle::b64,
                         Swizzle128B = Swizzle::b128;

// The rows and columns of a tile in shared memory.
struct TileShape {
  int rows, cols;  // cols are contiguous
  // Only without swizzle: the number of columns in a panel, which divides cols; 0 makes the whole row one
  // panel. wgmma reads such tiles in panels of 16 bytes.
  int panel_cols = 0;
};

// An axis of a cluster.
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

class SharedRegion;
class SharedTile;
class Stage;
class TileView;
class CopyView;
class LoadView;

namespace detail {
// Receives reports of copies and writes that fill the tiles of a producer's stage.
struct StageFilling {
  virtual ~StageFilling() = default;
  virtual void load(const LoadView& to) = 0;  // a bulk copy, before it is issued
  virtual void write(const TileView& to, std::string_view operation, bool by_cp_async) = 0;  // by threads
};
}  // namespace detail

// A place in shared memory: one stage of a tile, or some of its rows or columns, at an
// address that the device knows.
class TileView {
 public:
  // Returns `count` rows, starting at row `first`, a multiple of 8, so that the swizzle's pattern starts anew
  // there. A `first` that the device computes is not checked, and neither is the index of a stage.
  TileView rows(u32 first, int count, Where where = Where::here()) const;
  // Returns `count` columns from `first` on, in whole panels; a `first` that the device computes is rounded
  // down to a panel.
  TileView cols(u32 first, int count, Where where = Where::here()) const;
  // Returns the same bytes with rows and columns exchanged, such as a wgmma operand stored along m or n.
  TileView transposed() const;
  // A place has no options for copies, so each of the following functions returns a view that only copies
  // accept.
  //
  // TMA loads fetch this view once for all CTAs of the cluster along `axes`, one or more: each CTA fetches
  // part of the rows for all of them. Each of the CTAs expects the bytes of the whole view. If there is only
  // one CTA along the axes, this is a plain load.
  LoadView multicast(ClusterAxes axes) const;
  // Loads into this view complete on `barrier`. With on(), the caller arrives there and expects the bytes;
  // with expecting(), each load does so itself, for the whole view: each load is one arrival at the barrier
  // (PTX ISA, mbarrier.arrive.expect_tx), so a barrier with one arrival per load needs no others.
  LoadView on(smem barrier) const;
  LoadView expecting(smem barrier) const;
  // Sets the value that TMA loads into this view find outside the tensor: zeros by default, or NaN for f16,
  // bf16, tf32, f32 and f64. All loads through one tensor map must use the same value.
  LoadView outside(OobFill fill) const;
  // TMA copies from and to this view pass this hint to L2. By default there is no hint.
  CopyView evict(Eviction eviction) const;
  // Only threads for which `condition` is true make the TMA copies from and to this view, and expect the
  // bytes of expecting(). Not for views of a pipeline's stage, since the stage expects all of its bytes.
  CopyView when(pred condition) const;

  const SharedTile& tile() const { return *tile_; }
  smem address() const { return address_; }
  int row_count() const { return rows_; }
  // whole() is the tile that this is a view of; first_row() and first_col() are where the view begins in
  // it, if the host knows. tile() has only the columns of the view.
  const SharedTile& whole() const { return *whole_; }
  // stage() is the stage of whole() that contains the view, if the host knows.
  const std::optional<int>& first_row() const { return first_row_; }
  const std::optional<int>& first_col() const { return first_col_; }
  const std::optional<int>& stage() const { return stage_; }
  bool is_transposed() const { return transposed_; }
  int bytes() const;  // of its elements
  // Maps (row, column), exchanged if the view is transposed, to the element counted from the view's
  // address. All code that computes addresses uses this. Throws Error when the view begins, or may begin,
  // inside the swizzle's pattern, since then the swizzle cannot be applied to the offset by itself.
  ComposedLayout layout(Where where = Where::here()) const;
  // A view of a pipeline's stage has the barrier on which loads into it complete and, in a producer, the
  // object that notes what fills the stage.
  const std::optional<smem>& stage_barrier() const { return stage_barrier_; }
  const std::shared_ptr<detail::StageFilling>& filling() const { return filling_; }

 private:
  friend class SharedTile;
  TileView(std::shared_ptr<const SharedTile> tile, smem address)
      : tile_(std::move(tile)), whole_(tile_), address_(address) {}

  std::shared_ptr<const SharedTile> tile_, whole_;
  smem address_;
  int rows_ = 0;
  std::optional<int> first_row_ = 0, first_col_ = 0, stage_;
  bool transposed_ = false;
  std::optional<smem> stage_barrier_;
  std::shared_ptr<detail::StageFilling> filling_;
};

// `stages` contiguous tiles of rows x cols elements. A tile is row-major in panels. A panel is as
// wide as the swizzle's span or, without swizzle, as the shape says; its bytes are laid out as TMA writes one
// box and wgmma reads it. Only layout() defines where an element is.
class SharedTile {
 public:
  SharedTile(Builder& builder, DType dtype, TileShape shape, Swizzle swizzle, int stages, std::string name,
             Where where = Where::here());
  // Makes a tile in the place of other tiles, from their first byte on. The two must not be in use at
  // the same time; the emulator reports that as a race. Throws Error when `place` belongs to another kernel,
  // is too small, or not aligned to the swizzle's pattern (8 spans, at least 128 bytes).
  SharedTile(const SharedRegion& place, DType dtype, TileShape shape, Swizzle swizzle, int stages,
             Where where = Where::here());

  // Makes a tile without swizzle whose rows may have any number of bytes. Only threads can use it: TMA and
  // products refuse rows that are not a multiple of 16 bytes.
  static SharedTile for_threads(Builder& builder, DType dtype, TileShape shape, int stages, std::string name);

  TileView operator[](u32 stage) const;
  TileView operator[](const Stage& stage) const;

  DType dtype() const { return dtype_; }
  int rows() const { return shape_.rows; }
  int cols() const { return shape_.cols; }
  Swizzle swizzle() const { return swizzle_; }
  int stages() const { return stages_; }
  // Maps (row, column) to the element from the start of a stage; the column is
  // (column in the panel, panel).
  const ComposedLayout& layout() const { return layout_; }
  // Returns the offset of an element before the swizzle, in bytes from the start of a stage.
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
  friend class TileView;      // cols() makes a narrower tile
  friend class SharedRegion;  // names its owner
  // Makes a tile without a place yet; a row is a multiple of `row_unit` bytes.
  SharedTile(Builder& builder, DType dtype, TileShape shape, Swizzle swizzle, int stages, int row_unit,
             Where where);
  void take_place(Builder& builder, std::string name);
  uint32_t alignment() const;  // of a stage
  void lay_out();              // sets the members that follow from the shape
  detail::Region region_;  // instead of two tiles that a loop would exchange, use one tile with two stages
  const Builder::State* owner_;  // the kernel's
  DType dtype_;
  TileShape shape_;
  Swizzle swizzle_;
  int stages_;
  ComposedLayout layout_;
  int panels_ = 1;
  uint32_t offset_ = 0;
};

// The bytes of shared memory of a tile with all its stages, or of a view that is contiguous, as far as the
// host knows. Another tile may take their place when no code needs their contents.
class SharedRegion {
 public:
  SharedRegion(const SharedTile& tile);                             // NOLINT: a tile is a place too
  SharedRegion(const TileView& view, Where where = Where::here());  // NOLINT

  uint32_t offset() const { return offset_; }  // from the start of dynamic shared memory
  int bytes() const { return bytes_; }
  std::string describe() const { return text_; }  // "2 stages of a bf16 128x64 tile, 128 B swizzle"

 private:
  friend class SharedTile;
  const Builder::State* owner_;
  uint32_t offset_;
  int bytes_;
  std::string text_;
};

}  // namespace ptxbuilder
