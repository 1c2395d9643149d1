// Describes tiles in shared memory: the layout of their rows and panels, and what copies and matrix
// instructions need to know about them.
#pragma once

#include <memory>

#include "ptxbuilder/ir/typed_calls.h"
#include "ptxbuilder/layout/swizzle.h"
#include "ptxbuilder/plan/elements.h"

namespace ptxbuilder {

// The four swizzles of TMA and wgmma, named after the number of bytes that one pattern spans.
inline constexpr Swizzle SwizzleNone = Swizzle::none, Swizzle32B = Swizzle::b32, Swizzle64B = Swizzle::b64,
                         Swizzle128B = Swizzle::b128;

// The shape of a tile in shared memory.
struct TileShape {
  int rows, cols;  // columns are contiguous
  // The number of columns of a panel, which must divide cols; 0 makes the whole row a single panel. Only for
  // tiles without a swizzle: wgmma reads such tiles in panels of 16 bytes.
  int panel_cols = 0;
};

// An axis of a cluster.
enum class ClusterAxis : uint8_t { x, y, z };

// A set of a cluster's axes: ClusterAxis::x | ClusterAxis::y.
class ClusterAxes {
 public:
  constexpr ClusterAxes() = default;
  constexpr ClusterAxes(ClusterAxis axis)
      : bits_(1u << static_cast<unsigned>(axis)) {}  // NOLINT: one of them
  constexpr bool empty() const { return bits_ == 0; }
  constexpr bool has(size_t axis) const { return (bits_ >> axis & 1) != 0; }  // 0 for x, 1 for y, 2 for z
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
// Is notified of copies and writes that fill the tiles of a producer's stage.
struct StageFilling {
  virtual ~StageFilling() = default;
  virtual void load(const LoadView& to) = 0;  // called before a bulk copy is issued
  virtual void write(const TileView& to, std::string_view operation, bool by_cp_async) = 0;  // by threads
  virtual void exchange(const TileView& to, ClusterAxis axis) = 0;  // by threads of CTAs along an axis
};
}  // namespace detail

// A place in shared memory: one stage of a tile, or some of its rows or columns. The device may compute its
// address.
class TileView {
 public:
  // Returns `count` rows, starting at row `first`, which must be a multiple of 8 so that the swizzle's
  // pattern begins there. If the device computes `first`, it is not checked; neither is the index of a stage.
  TileView rows(u32 first, int count, Where where = Where::here()) const;
  // Returns `count` columns, beginning at `first`, in whole panels. If the device computes `first`, it is
  // rounded down to the start of a panel.
  TileView cols(u32 first, int count, Where where = Where::here()) const;
  // Returns the same bytes with rows and columns exchanged, for example for a wgmma operand stored along m or
  // n.
  TileView transposed() const;
  // A place itself has no copy options, so each of the following functions returns a view that only copies
  // accept.
  //
  // TMA loads that use multicast() fetch this view once for all CTAs of the cluster along `axes`, at least
  // one axis: each CTA fetches some of the rows for all of these CTAs, and expects the bytes of the whole
  // view. If there is only one CTA along the axes, this is an ordinary load.
  LoadView multicast(ClusterAxes axes) const;
  // Makes `barrier` count the bytes of loads into this view. With on(), the caller arrives there and
  // expects the bytes. With expecting(), each load expects the bytes of the whole view and arrives once (PTX
  // ISA, mbarrier.arrive.expect_tx), so a barrier that counts one arrival per load needs no other arrivals.
  LoadView on(smem barrier) const;
  LoadView expecting(smem barrier) const;
  // Sets the value that TMA loads into this view use for elements outside the tensor: zero by default, or NaN
  // for f16, bf16, tf32, f32 and f64. All loads through a tensor map must use the same value.
  LoadView outside(OobFill fill) const;
  // Makes TMA copies from and to this view pass a hint to L2. By default, they pass none.
  CopyView evict(Eviction eviction) const;
  // Makes the TMA copies from and to this view only in threads for which `condition` is true; only these
  // threads expect the bytes of expecting(). Cannot be used for views of a pipeline's stage, which expects
  // all of its bytes.
  CopyView when(pred condition) const;

  const SharedTile& tile() const { return *tile_; }
  smem address() const { return address_; }
  int row_count() const { return rows_; }
  // whole() is the tile that contains this view; first_row() and first_col() state where the view begins in
  // the tile, if the host knows it. tile() is a tile with only the columns of the view.
  const SharedTile& whole() const { return *whole_; }
  // stage() is the stage of whole() that contains the view, if the host knows it.
  const std::optional<int>& first_row() const { return first_row_; }
  const std::optional<int>& first_col() const { return first_col_; }
  const std::optional<int>& stage() const { return stage_; }
  bool is_transposed() const { return transposed_; }
  int bytes() const;  // size of its elements
  // Maps (row, column), or (column, row) if the view is transposed, to the number of the element, counted
  // from the view's address. All code that computes addresses uses this. Throws Error if the view begins, or
  // may begin, inside the swizzle's pattern, since the swizzle can then not be applied to the offset only.
  ComposedLayout layout(Where where = Where::here()) const;
  // If this is a view of a pipeline's stage, return the barrier that counts the bytes of loads into it and,
  // in a producer, the object that tracks what fills the stage.
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

// `stages` contiguous tiles of rows x cols elements. A tile consists of row-major panels. A panel is as wide
// as the swizzle's span or, without a swizzle, as the shape states; its bytes are laid out as TMA writes one
// box and wgmma reads it. Only layout() determines where an element is.
class SharedTile {
 public:
  SharedTile(Builder& builder, DType dtype, TileShape shape, Swizzle swizzle, int stages, std::string name,
             Where where = Where::here());
  // Makes a tile in the memory of other tiles, beginning at their first byte. It must not be in use at the
  // same time as they are; the emulator reports that as a race. Throws Error if `place` belongs to another
  // kernel, is too small, or is not aligned to the swizzle's pattern (8 spans, at least 128 bytes).
  SharedTile(const SharedRegion& place, DType dtype, TileShape shape, Swizzle swizzle, int stages,
             Where where = Where::here());

  // Makes a tile without a swizzle whose rows may have any number of bytes. Only threads can use such a tile:
  // TMA and products require rows of a multiple of 16 bytes.
  static SharedTile for_threads(Builder& builder, DType dtype, TileShape shape, int stages, std::string name);

  TileView operator[](u32 stage) const;
  TileView operator[](const Stage& stage) const;

  DType dtype() const { return dtype_; }
  int rows() const { return shape_.rows; }
  int cols() const { return shape_.cols; }
  Swizzle swizzle() const { return swizzle_; }
  int stages() const { return stages_; }
  // Maps (row, column) to the number of the element, counted from the start of a stage. The column is (column
  // in the panel, panel).
  const ComposedLayout& layout() const { return layout_; }
  // Returns the offset of an element from the start of a stage, in bytes, before the swizzle is applied.
  int linear_offset(int row, int col) const;
  int panels() const { return panels_; }
  int panel_cols() const { return shape_.cols / panels_; }
  int panel_row_bytes() const { return linear_offset(1, 0); }         // distance between rows of a panel
  int panel_bytes() const { return linear_offset(0, panel_cols()); }  // distance between panels
  int stage_bytes() const { return shape_.rows * shape_.cols * size_of(dtype_); }
  uint32_t offset() const { return offset_; }  // from the start of dynamic shared memory
  bool operator==(const SharedTile& other) const {
    return owner_ == other.owner_ && offset_ == other.offset_;
  }

  std::string describe() const;  // "bf16 128x64 tile, 128 B swizzle"

 private:
  friend class TileView;      // because cols() makes a narrower tile
  friend class SharedRegion;  // because it reads owner_
  // Makes a tile that has no place yet; the size of a row must be a multiple of `row_unit` bytes.
  SharedTile(Builder& builder, DType dtype, TileShape shape, Swizzle swizzle, int stages, int row_unit,
             Where where);
  void take_place(Builder& builder, std::string name);
  uint32_t alignment() const;    // alignment of a stage
  void lay_out();                // sets the members that follow from the shape
  detail::Region region_;        // a loop cannot exchange tiles; use one tile with two stages instead
  const Builder::State* owner_;  // state of the kernel that owns the tile
  DType dtype_;
  TileShape shape_;
  Swizzle swizzle_;
  int stages_;
  ComposedLayout layout_;
  int panels_ = 1;
  uint32_t offset_ = 0;
};

// The shared memory of a tile with all its stages, or of a view that the host knows to be contiguous. Another
// tile can be made in this memory when no code needs its contents any more.
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
