// Stores tiles from registers to global memory, through shared memory and with TMA.
#pragma once

#include "ptxbuilder/product/accumulator.h"
#include "ptxbuilder/tile/tma.h"

namespace ptxbuilder {

// A row-major output in memory, for threads that store what TMA cannot: TMA needs rows at multiples of 16
// bytes, and writes whole units of 16 bytes at their ends. `by_tma` is the number of columns, from the first
// on, that TMA stores: a multiple of 16 bytes, or 0; the tensor map has no more columns. TMA stores a panel
// that ends at or before `by_tma` as a whole, and only the extents of the tensor map bound its rows; `rows`
// and `cols` bound, element by element, what the threads store of the other panels. Batches are `rows` *
// `stride` elements apart.
struct ThreadStore {
  gmem start;                      // the first batch; the other batches follow without a gap
  u32 rows, cols, stride, by_tma;  // the stride in elements
};

// A row-major matrix of `rows` rows, `stride` elements apart, whose row index[i] receives row i of the
// output, in columns before `cols`. Rows outside the matrix are not written, nor are rows i from the
// store's `batch` on. Threads write 16 bytes at a time: the start, the stride and `cols` are multiples of
// 16 bytes, and index[0] must always be readable. Rows that the index contains twice are written twice, in no
// particular order. With `adds`, elements of f32, f16 or bf16 are added to the matrix instead: each addition
// is atomic and rounds, and additions to one element are in no particular order.
struct ScatteredRows {
  gmem start;
  u32 rows, cols, stride;
  gptr<s32> index;
  bool adds = false;
};

// The coordinates, in a tensor with more dimensions, of the element at a row and column of the output, and of
// its batch if there is one. A box's columns are only along the innermost dimension. Its 64 rows are folded
// or, if `inner_rows` is 0, all along the next dimension (see FoldedRows).
struct StorePlaces {
  std::function<std::vector<u32>(u32 row, u32 col, const std::optional<u32>& batch)> at;
  int inner_rows = 0;
};

// The options of store().
struct StoreOptions {
  // The tensor's rows are the tile's columns: stores D^T, which is needed if the operands were exchanged.
  bool transposed = false;
  // The number of staging buffers of each warpgroup, 1 to 4. With one, writing waits for the copy before it.
  int buffers = 2;
  // The columns of a panel, which must divide the output's. 0: as many columns as a buffer holds.
  int columns = 0;
  // Columns may be stored twice, with the same values: if the columns of a tile do not fill whole boxes of
  // 128 bytes, the last panel begins earlier; without this option, all boxes are narrow enough to divide the
  // columns. Not for an epilogue that reads the stored memory.
  bool repeats = false;
  // The epilogue makes one column of the output from two of the tile, like even_columns() and odd_columns()
  // (epilogue.h): the output has half the number of columns. Not with `transposed`.
  bool pairs = false;
  // The third coordinate of a tensor of batches.
  std::optional<u32> batch = {};
  // If batches are in several tensors, this returns a batch's tensor map, and the third coordinate in it.
  std::function<std::pair<TensorMap, u32>(u32 batch)> place_of_batch = {};
  // Further coordinates, which are the same for all boxes.
  std::vector<uint32_t> outer = {};
  // The coordinates of boxes. Folded rows cannot be combined with `transposed`.
  std::optional<StorePlaces> places = {};
  // Threads store a panel that TMA does not store as a whole, one element at a time.
  std::optional<ThreadStore> threads = {};
  // A PanelStore stores rows to these rows, without TMA.
  std::optional<ScatteredRows> scattered = {};
  // The place of the staging buffers: a tile, or a view of a tile, whose contents are lost. Stores by the
  // same warpgroups may use the same place, one after the other. All of the role's warpgroups must have
  // finished with its contents and, before anybody else writes there, with the store: wait_stores(0,
  // StoreWait::read). If not given, a store has buffers of its own. Throws Error that states how many bytes
  // are needed if the place has fewer.
  std::optional<SharedRegion> staging = {};
};

// The place of the first element of a panel in the output: the coordinates that the store received, plus the
// panel's place in the tile. With `transposed`, `row` is a column of the output, and `col` a row; with
// `pairs`, `col` counts the columns of the sums, two for each column of the output.
struct PanelPlace {
  u32 row, col;
  std::optional<u32> batch;
  bool transposed;  // the panel's rows are the output's columns
};

// A function on tiles that changes sums before they are rounded. It receives one panel at a time, 64 rows and
// as many columns as a staging buffer holds, so that values that it loads do not occupy registers for long.
// product/epilogue.h offers some epilogues; they compose like other functions. Elements outside the tensor
// pass through the function too, and are then dropped.
using Epilogue = std::function<RegisterTile<f32>(const RegisterTile<f32>& sums, const PanelPlace& place)>;

// A source of a store: a tile in wgmma_layout, or an accumulator.
class StoreSource {
 public:
  StoreSource(const Accumulator& from);  // NOLINT: a kind of tile
  template <TileElement T>
  StoreSource(const RegisterTile<T>& x) requires(!std::same_as<T, pred>)  // NOLINT
      : StoreSource(x.values()) {}

  DType dtype() const { return dtype_; }
  TileExtent extent() const { return extent_; }
  // Returns the values of a part of the tile.
  detail::TileValues part(const TilePart& part) const { return part_(part); }

 private:
  explicit StoreSource(const detail::TileValues& x);

  DType dtype_;
  TileExtent extent_;
  std::function<detail::TileValues(const TilePart&)> part_;
};

// Stores a tile with TMA to the box at row m, column n (of the output) of a row-major tensor, through buffers
// of 64 rows x 128 bytes for each warpgroup of the role, or through `options.staging`. The tile passes
// through `epilogue`, if there is one, and is rounded to `type`: f32, f16, bf16, e4m3, e5m2 or, without an
// epilogue, its own type. All threads of the warpgroup call this; elements outside the tensor are dropped.
// The copies may still read the buffers when it returns: the next store waits for them, and so does the end
// of the role. Throws Error if no box fits the number of columns.
void store(DType type, TensorMap to, const StoreSource& from, u32 m, u32 n, const Epilogue& epilogue,
           const StoreOptions& options = {}, Where where = Where::here());
inline void store(DType type, TensorMap to, const StoreSource& from, u32 m, u32 n,
                  const StoreOptions& options = {}, Where where = Where::here()) {
  AtLine line(where);
  store(type, to, from, m, n, nullptr, options);
}
template <class T>
void store(TensorMap to, const StoreSource& from, u32 m, u32 n, const Epilogue& epilogue,
           const StoreOptions& options = {}, Where where = Where::here()) {
  AtLine line(where);
  store(T::dtype, to, from, m, n, epilogue, options);
}
template <class T>
void store(TensorMap to, const StoreSource& from, u32 m, u32 n, const StoreOptions& options = {},
           Where where = Where::here()) {
  AtLine line(where);
  store(T::dtype, to, from, m, n, nullptr, options);
}
template <TileElement T>
void store(TensorMap to, const RegisterTile<T>& x, u32 m, u32 n, const StoreOptions& options = {},
           Where where = Where::here()) requires(!std::same_as<T, pred>) {
  AtLine line(where);
  store(T::dtype, to, x, m, n, nullptr, options);
}

// A store of tiles of one size, whose panels can be stored one at a time.
class PanelStore {
 public:
  // Set `options.batch`, to any value, if the tensor has batches, or if rows are scattered, which does not
  // need a tensor map. Throws Error as store() does.
  PanelStore(DType type, std::optional<TensorMap> to, TileExtent tile, const StoreOptions& options = {},
             Where where = Where::here());

  // Returns the columns of the tile that make a panel; all panels have equal widths if `options.columns` is
  // set.
  int panel_columns() const;

  // Stores `panel`, as the epilogue makes it, as one panel of a tile at row m, column n of the output. Panels
  // are numbered across each 64 rows in turn. They may be stored in any order, and under a condition that is
  // the same for the whole warpgroup.
  void store_panel(u32 number, const StoreSource& panel, u32 m, u32 n, const Epilogue& epilogue = nullptr,
                   std::optional<u32> batch = {}, Where where = Where::here()) const;
  // Stores a whole tile.
  void store(const StoreSource& from, u32 m, u32 n, const Epilogue& epilogue = nullptr,
             std::optional<u32> batch = {}, Where where = Where::here()) const;

 private:
  friend class DeferredStore;
  struct State;
  std::shared_ptr<const State> state_;
};

// A store that runs during the products of the next tile. take() rounds a tile into registers of its own,
// after which the next products may begin. Each step() stores a part of the tile; call it while wgmmas run.
// Only 16-bit types are possible; 64 rows x 256 columns occupy 64 registers of each thread.
//   DeferredStore out(DType::bf16, D, {64, 256});
//   for each tile: { ...; wgmma_group(...); out.step(0); wgmma_wait(0); ...; out.take(acc, m, n); }
//   out.finish();
class DeferredStore {
 public:
  // Set `options.batch`, to any value, if the tensor has batches; take() receives the batch of each tile.
  DeferredStore(DType type, TensorMap to, TileExtent tile, const StoreOptions& options = {},
                Where where = Where::here());
  // Does the same through the buffers of `panels`, which may store other tiles after all steps of this store.
  explicit DeferredStore(const PanelStore& panels, Where where = Where::here());

  // Between two calls of take(), call each step once, in order: a tile whose steps are omitted is lost.
  // Before the first take() they do nothing. A last take() that no steps follow is an Error when the kernel
  // is finished.
  int steps() const;
  void step(int i, Where where = Where::here());

  // Accepts a tile for the box at row m, column n.
  void take(const StoreSource& from, u32 m, u32 n, const Epilogue& epilogue = nullptr,
            std::optional<u32> batch = {}, Where where = Where::here());
  // Call this instead of take(), after all steps: the steps until the next take() do nothing. When it
  // returns, TMA has read the buffers that panels have stored meanwhile.
  void skip(Where where = Where::here());
  // Runs all steps of the last tile.
  void finish(Where where = Where::here());

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace ptxbuilder
