// Stores of tiles in registers to global memory, through shared memory and by TMA.
#pragma once

#include "ptxbuilder/product/accumulator.h"
#include "ptxbuilder/tile/tma.h"

namespace ptxbuilder {

// A row-major output in memory, for threads that store what TMA cannot: TMA takes only rows at multiples of
// 16 bytes, and writes whole units of 16 bytes at their ends. `by_tma` is how many columns, from the first
// on, TMA stores: a multiple of 16 bytes, or 0; the tensor map has no more. A panel that ends at or
// before `by_tma` goes by TMA as a whole, and the extents of the tensor map alone bound its rows; `rows` and
// `cols` bound, element by element, what the threads store of the other panels. Batches are `rows` * `stride`
// elements apart.
struct ThreadStore {
  gmem start;                      // of the first batch, which the others follow without a gap
  u32 rows, cols, stride, by_tma;  // the stride in elements
};

// A row-major matrix of `rows` rows, `stride` elements apart, that gets row i of the output as its row
// index[i], in columns before `cols`. Rows that it does not have are not written, nor are rows i from the
// store's `batch` on. Threads write 16 bytes at a time: the start, the stride and `cols` are multiples of
// that, and index[0] can be read in any case. Rows that are named twice are written twice, in no particular
// order.
struct ScatteredRows {
  gmem start;
  u32 rows, cols, stride;
  gptr<s32> index;
};

// The coordinates, in a tensor of more dimensions, of the element at a row and column of the output, and of
// its batch where there is one. A box's columns lie along the innermost dimension only. Its 64 rows are
// folded, or all along the next one where `inner_rows` is 0 (see FoldedRows).
struct StorePlaces {
  std::function<std::vector<u32>(u32 row, u32 col, const std::optional<u32>& batch)> at;
  int inner_rows = 0;
};

// The options of store().
struct StoreOptions {
  // The tensor's rows are the tile's columns: D^T is stored, as is needed when the operands were exchanged.
  bool transposed = false;
  // Staging buffers of each warpgroup, 1 to 4. With one, writing waits for the copy before it.
  int buffers = 2;
  // The columns of a panel; they divide the output's. 0: as many as a buffer takes.
  int columns = 0;
  // Columns may be stored twice, with the same values: where those of a tile do not fill whole boxes
  // of 128 bytes, the last panel begins earlier; without this, all boxes are narrow enough to divide the
  // columns. Not for an epilogue that reads what is stored.
  bool repeats = false;
  // The epilogue makes one column of the output from two of the tile, as even_columns() and odd_columns() do
  // (epilogue.h): the output has half as many columns. Not with `transposed`.
  bool pairs = false;
  // The third coordinate of a tensor of batches.
  std::optional<u32> batch = {};
  // If batches lie in several tensors, this gives a batch's tensor map, and the third coordinate in it.
  std::function<std::pair<TensorMap, u32>(u32 batch)> place_of_batch = {};
  // Coordinates after that, which are the same for all.
  std::vector<uint32_t> outer = {};
  // Boxes lie where these say. Folded rows do not go with `transposed`.
  std::optional<StorePlaces> places = {};
  // A panel that TMA does not store as a whole is stored by threads, an element at a time.
  std::optional<ThreadStore> threads = {};
  // Rows of a PanelStore go where these say, and not by TMA.
  std::optional<ScatteredRows> scattered = {};
  // The place of the staging buffers: in the place of a tile, or of a view of one, whose contents are lost
  // by that. Stores by the same warpgroups may have the same place, one after the other. All of
  // the role's warpgroups must be through with what is there, and, before anybody else writes there, with the
  // store: wait_stores(0, StoreWait::read). If not given, a store has buffers of its own. Throws Error that
  // says how many bytes are needed where the place has fewer.
  std::optional<SharedRegion> staging = {};
};

// The place of the first element of a panel in the output: the coordinates that the store was given, plus the
// panel's place in the tile. With `transposed`, `row` is a column of the output, and `col` a row; with
// `pairs`, `col` counts the columns of the sums, two for each of the output.
struct PanelPlace {
  u32 row, col;
  std::optional<u32> batch;
  bool transposed;  // the panel's rows are the output's columns
};

// A function on tiles that changes sums before they are rounded. It gets one panel at a time: 64 rows, and
// as many columns as pass through a staging buffer at once, so that what it loads need not wait in
// registers. product/epilogue.h has some epilogues; they compose as functions do. Elements outside the
// tensor pass through the function too, and are then dropped.
using Epilogue = std::function<RegisterTile<f32>(const RegisterTile<f32>& sums, const PanelPlace& place)>;

// A source is what is stored: a tile in wgmma_layout, or accumulators as they are.
class StoreSource {
 public:
  StoreSource(const Accumulator& from);  // NOLINT: a kind of tile
  template <TileElement T>
  StoreSource(const RegisterTile<T>& x) requires(!std::same_as<T, pred>)  // NOLINT
      : StoreSource(x.values()) {}

  DType dtype() const { return dtype_; }
  TileExtent extent() const { return extent_; }
  // The values of a part of the tile.
  detail::TileValues part(const TilePart& part) const { return part_(part); }

 private:
  explicit StoreSource(const detail::TileValues& x);

  DType dtype_;
  TileExtent extent_;
  std::function<detail::TileValues(const TilePart&)> part_;
};

// Stores a tile by TMA to the box at row m, column n (of the output) of a row-major tensor, through buffers
// of 64 rows x 128 bytes for each warpgroup of the role, or as `options.staging` says. The tile passes
// through `epilogue`, if there is one, and is rounded to `type`: f32, f16, bf16, e4m3, e5m2 or, without an
// epilogue, its own. All threads of the warpgroup call this; what is outside the tensor is dropped. The
// copies may still read the buffers when it returns: the next store waits for them, and so does the end of
// the role. Throws Error when no box fits the number of columns.
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

// A store of tiles of one size whose panels may come one by one.
class PanelStore {
 public:
  // Set `options.batch`, to any value, if the tensor has batches, or if rows are scattered, which takes no
  // tensor map. Throws Error as store() does.
  PanelStore(DType type, std::optional<TensorMap> to, TileExtent tile, const StoreOptions& options = {},
             Where where = Where::here());

  // The columns of the given tile that become a panel; all panels have as many if `options.columns` says so.
  int panel_columns() const;

  // Stores `panel`, as the epilogue makes it, as one panel of a tile at row m, column n of the output. Panels
  // are numbered across each 64 rows in turn. They may come in any order, and under a condition that holds
  // for all of the warpgroup or for nobody in it.
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
// Only 16-bit types are possible; 64 rows x 256 columns take 64 registers a thread.
//   DeferredStore out(DType::bf16, D, {64, 256});
//   for each tile: { ...; wgmma_group(...); out.step(0); wgmma_wait(0); ...; out.take(acc, m, n); }
//   out.finish();
class DeferredStore {
 public:
  // Set `options.batch`, to any value, if the tensor has batches; take() gives the batch of each tile.
  DeferredStore(DType type, TensorMap to, TileExtent tile, const StoreOptions& options = {},
                Where where = Where::here());
  // The same through the buffers of `panels`, which may store other tiles after all steps of this one's.
  explicit DeferredStore(const PanelStore& panels, Where where = Where::here());

  // Between two calls of take(), call each step once, in order: a tile whose steps were left out is lost.
  // Before the first take() they do nothing. A last take() that no steps follow is an Error when the kernel
  // is finished.
  int steps() const;
  void step(int i, Where where = Where::here());

  // Takes a tile that is to be stored to the box at row m, column n.
  void take(const StoreSource& from, u32 m, u32 n, const Epilogue& epilogue = nullptr,
            std::optional<u32> batch = {}, Where where = Where::here());
  // Call it in place of take(), after all steps: the steps until the next take() do nothing. After it, TMA
  // has read what panels have stored meanwhile.
  void skip(Where where = Where::here());
  // Runs all steps of the last tile.
  void finish(Where where = Where::here());

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace ptxbuilder
