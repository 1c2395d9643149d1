// Describes tiles in shared memory: the layout of their rows and panels, and the properties that copies and
// matrix instructions need.
#pragma once

#include <memory>

#include "ptxbuilder/ir/typed_calls.h"
#include "ptxbuilder/layout/swizzle.h"
#include "ptxbuilder/plan/elements.h"

namespace ptxbuilder {

// The four swizzles of TMA and wgmma, named after the number of bytes that one pattern spans. The kind
// without a swizzle is SwizzleNone.
inline constexpr Swizzle SwizzleNone = Swizzle::none, Swizzle32B = Swizzle::b32, Swizzle64B = Swizzle::b64,
                         Swizzle128B = Swizzle::b128;

// Describes the shape of a tile in shared memory.
struct TileShape {
  int rows, cols;  // the elements of a row are contiguous
  // The number of columns of a panel, which must divide `cols`. If `panel_cols` is 0, each row belongs to a
  // single panel. Only a tile without a swizzle can have panels of a chosen width; wgmma reads such a tile in
  // panels of 16 bytes.
  int panel_cols = 0;
};

// An axis of a cluster.
enum class ClusterAxis : uint8_t { x, y, z };

// A set of a cluster's axes, such as ClusterAxis::x | ClusterAxis::y.
class ClusterAxes {
 public:
  constexpr ClusterAxes() = default;
  constexpr ClusterAxes(ClusterAxis axis) : bits_(1u << static_cast<unsigned>(axis)) {}  // NOLINT: implicit
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
// An interface that tracks the copies and writes that fill the tiles of a producer's stage.
struct StageFilling {
  virtual ~StageFilling() = default;
  // Must be called before a bulk copy is issued.
  virtual void load(const LoadView& to) = 0;
  // Must be called when threads write to the tile.
  virtual void write(const TileView& to, std::string_view operation, bool by_cp_async) = 0;
  // Must be called when threads of CTAs along an axis write to each other's tile.
  virtual void exchange(const TileView& to, ClusterAxis axis) = 0;
};
}  // namespace detail

// A view of a place in shared memory: one stage of a tile, or some rows or columns of the stage. The view's
// address may be a device value.
class TileView {
 public:
  // Returns a view of `count` rows, starting at row `first`, which must be a multiple of 8 so that the
  // swizzle's pattern begins there. If `first` or the index of a stage is a device value, it is not checked.
  TileView rows(u32 first, int count, Where where = Where::here()) const;
  // Returns a view of `count` columns, beginning at column `first`. The columns must form complete panels. If
  // `first` is a device value, it is rounded down to the start of a panel.
  TileView cols(u32 first, int count, Where where = Where::here()) const;
  // Returns a view of the same bytes with rows and columns exchanged, for example for a wgmma operand stored
  // along m or n.
  TileView transposed() const;
  // A TileView has no copy options. Each of the following functions returns a view with an option. Only
  // copies accept such a view.
  //
  // Makes TMA loads fetch this view once for all CTAs of the cluster along `axes`, which must not be empty.
  // Each of these CTAs fetches some of the rows for all of them, and expects the bytes of the entire view. If
  // there is only one CTA along the axes, the load is an ordinary load.
  LoadView multicast(ClusterAxes axes) const;
  // Make `barrier` count the bytes of loads into this view. With on(), the caller itself must arrive at the
  // barrier and make it expect the bytes. With expecting(), each load makes the barrier expect the bytes of
  // the entire view and arrives once (PTX ISA, mbarrier.arrive.expect_tx). A barrier that counts one arrival
  // per load then needs no other arrivals.
  LoadView on(smem barrier) const;
  LoadView expecting(smem barrier) const;
  // Sets the value that TMA loads into this view use for elements outside the tensor. The default is zero;
  // f16, bf16, tf32, f32 and f64 can also use NaN. All loads through a tensor map must use the same value.
  LoadView outside(OobFill fill) const;
  // Makes TMA copies from and to this view pass a hint to L2. By default, copies do not pass a hint.
  CopyView evict(Eviction eviction) const;
  // Restricts TMA copies from and to this view to threads for which `condition` is true; with expecting(),
  // only these threads arrive at the barrier. A load into a stage that TMA alone fills cannot have a
  // condition, because the stage's barrier expects all bytes of the stage.
  CopyView when(pred condition) const;

  const SharedTile& tile() const { return *tile_; }
  smem address() const { return address_; }
  int row_count() const { return rows_; }
  // whole() is the tile that contains this view. first_row() and first_col() are the view's first row and
  // column in that tile, if they are known on the host. tile() is a tile that consists of only the columns of
  // the view.
  const SharedTile& whole() const { return *whole_; }
  // stage() is the index of the stage of whole() that contains the view, if it is known on the host.
  const std::optional<int>& first_row() const { return first_row_; }
  const std::optional<int>& first_col() const { return first_col_; }
  const std::optional<int>& stage() const { return stage_; }
  bool is_transposed() const { return transposed_; }
  int bytes() const;  // size of the view's elements
  // Returns the layout that maps (row, column), or (column, row) if the view is transposed, to the number of
  // the element, counted from the view's address. All code that computes addresses uses this layout. Throws
  // Error if the view begins, or may begin, inside the swizzle's pattern, because the swizzled offset would
  // then also depend on the view's address.
  ComposedLayout layout(Where where = Where::here()) const;
  // Return members that are set for a view of a pipeline's stage: the barrier that counts the bytes of loads
  // into the view and, in a producer, the object that tracks writes to the stage.
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

// A tile of rows x cols elements, in `stages` contiguous stages. The tile consists of row-major panels. A
// panel is as wide as the swizzle's span or, without a swizzle, has the width that the shape states. The
// bytes of a panel are in the order in which TMA writes a box and wgmma reads it. Only layout() determines
// the position of an element.
class SharedTile {
 public:
  SharedTile(Builder& builder, DType dtype, TileShape shape, Swizzle swizzle, int stages, std::string name,
             Where where = Where::here());
  // Makes a tile in the memory of another tile, beginning at the first byte of `place`. The two tiles must
  // not be in use at the same time; the emulator reports overlapping use as a race. Throws Error if `place`
  // belongs to another kernel, is too small, or is not aligned to the swizzle's pattern (8 spans, at least
  // 128 bytes).
  SharedTile(const SharedRegion& place, DType dtype, TileShape shape, Swizzle swizzle, int stages,
             Where where = Where::here());

  // Makes a tile without a swizzle whose rows may have any number of bytes. Only threads can use such a tile,
  // because TMA and products require rows of a multiple of 16 bytes.
  static SharedTile for_threads(Builder& builder, DType dtype, TileShape shape, int stages, std::string name);

  TileView operator[](u32 stage) const;
  TileView operator[](const Stage& stage) const;

  DType dtype() const { return dtype_; }
  int rows() const { return shape_.rows; }
  int cols() const { return shape_.cols; }
  Swizzle swizzle() const { return swizzle_; }
  int stages() const { return stages_; }
  // Returns the layout that maps (row, column) to the number of the element, counted from the start of a
  // stage. The column is itself a pair: (column in the panel, panel).
  const ComposedLayout& layout() const { return layout_; }
  // Returns the offset of an element from the start of a stage, in bytes, before the swizzle is applied.
  int linear_offset(int row, int col) const;
  int panels() const { return panels_; }
  int panel_cols() const { return shape_.cols / panels_; }
  int panel_row_bytes() const { return linear_offset(1, 0); }         // distance between rows of a panel
  int panel_bytes() const { return linear_offset(0, panel_cols()); }  // distance between panels
  int stage_bytes() const { return shape_.rows * shape_.cols * size_of(dtype_); }
  uint32_t offset() const { return offset_; }  // offset in dynamic shared memory
  bool operator==(const SharedTile& other) const {
    return owner_ == other.owner_ && offset_ == other.offset_;
  }

  std::string describe() const;  // such as "bf16 128x64 tile, 128 B swizzle"

 private:
  friend class TileView;      // cols() makes a narrower tile
  friend class SharedRegion;  // reads owner_
  // Makes a tile that has no memory yet. The size of a row must be a multiple of `row_unit` bytes.
  SharedTile(Builder& builder, DType dtype, TileShape shape, Swizzle swizzle, int stages, int row_unit,
             Where where);
  void take_place(Builder& builder, std::string name);
  uint32_t alignment() const;    // alignment of a stage, in bytes
  void lay_out();                // sets the members that are derived from the shape
  detail::Region region_;        // rejects assignments of tiles in a loop; use a tile with two stages instead
  const Builder::State* owner_;  // state of the kernel that owns the tile
  DType dtype_;
  TileShape shape_;
  Swizzle swizzle_;
  int stages_;
  ComposedLayout layout_;
  int panels_ = 1;
  uint32_t offset_ = 0;
};

// The shared memory of a tile with all its stages, or of a view that is known on the host to be contiguous.
// When its contents are no longer needed, another tile can be made in this memory.
class SharedRegion {
 public:
  SharedRegion(const SharedTile& tile);                             // NOLINT: implicit
  SharedRegion(const TileView& view, Where where = Where::here());  // NOLINT

  uint32_t offset() const { return offset_; }  // offset in dynamic shared memory
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
