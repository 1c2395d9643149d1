// Stores tiles from registers to global memory, through shared memory, with TMA.
#pragma once

#include "ptxbuilder/product/accumulator.h"
#include "ptxbuilder/tile/tma.h"

namespace ptxbuilder {

// A row-major output in memory, in which threads store what TMA cannot: TMA needs rows that begin at
// multiples of 16 bytes, and writes whole units of 16 bytes at their ends. TMA stores the first `by_tma`
// columns, a multiple of 16 bytes or 0, and the tensor map has only these columns. TMA stores whole panels
// that end at or before `by_tma`; the extents of the tensor map bound their rows. Threads store the elements
// of the other panels, bounded by `rows` and `cols`. Batches are `rows` * `stride` elements apart.
struct ThreadStore {
  gmem start;                      // start of the first batch; the other batches follow without gaps
  u32 rows, cols, stride, by_tma;  // `stride` in elements
};

// A row-major matrix whose row index[i] receives row i of the output, in the columns before `cols`. The
// matrix has `rows` rows, which are `stride` elements apart. Rows outside the matrix are not written; neither
// are rows i from the store's `batch` onwards. Threads write 16 bytes at a time: the start, the stride and
// `cols` must be multiples of 16 bytes, and index[0] must always be readable. Rows that the index contains
// twice are written twice, in no particular order. With `adds`, elements of f32, f16 or bf16 are added to the
// matrix instead: each addition is atomic and rounds, and the order of additions to an element is not
// defined.
struct ScatteredRows {
  gmem start;
  u32 rows, cols, stride;
  gptr<s32> index;
  bool adds = false;
};

// Gives the coordinates, in a tensor with more dimensions, of the element at a row and column of the output,
// and of its batch if there is one. The columns of a box are along the innermost dimension only. Its 64 rows
// are folded (see FoldedRows) or, if `inner_rows` is 0, all along the next dimension.
struct StorePlaces {
  std::function<std::vector<u32>(u32 row, u32 col, const std::optional<u32>& batch)> at;
  int inner_rows = 0;
};

// The options of store().
struct StoreOptions {
  // The tensor's rows are the tile's columns: stores D^T, for products whose operands were exchanged.
  bool transposed = false;
  // The number of staging buffers of each warpgroup, 1 to 4. With one buffer, writing waits for the previous
  // copy.
  int buffers = 2;
  // The number of columns of a panel, which must divide the output's columns. 0: as many as fit into a
  // buffer.
  int columns = 0;
  // Allows columns to be stored twice, with the same values: if the columns of a tile do not fill whole boxes
  // of 128 bytes, the last panel begins earlier. Without this option, boxes are narrow enough to divide the
  // columns. Do not use it with an epilogue that reads the memory being stored.
  bool repeats = false;
  // The epilogue makes one column of the output from two columns of the tile, as even_columns() and
  // odd_columns() (epilogue.h) do: the output has half as many columns. Cannot be combined with `transposed`.
  bool pairs = false;
  // The third coordinate, for a tensor of batches.
  std::optional<u32> batch = {};
  // If batches are in several tensors, this returns the tensor map of a batch, and the third coordinate in
  // it.
  std::function<std::pair<TensorMap, u32>(u32 batch)> place_of_batch = {};
  // Further coordinates, the same for all boxes.
  std::vector<uint32_t> outer = {};
  // The coordinates of boxes. Folded rows cannot be combined with `transposed`.
  std::optional<StorePlaces> places = {};
  // Threads store the panels that TMA does not store as a whole, one element at a time.
  std::optional<ThreadStore> threads = {};
  // A PanelStore stores to these rows, without TMA.
  std::optional<ScatteredRows> scattered = {};
  // The memory of the staging buffers: a tile, or a view of a tile, whose contents are lost. Several stores
  // by the same warpgroups may use the same memory, one after the other. All of the role's warpgroups must
  // have finished using its contents and, before anything else is written there, the store itself must have
  // finished: wait_stores(0, StoreWait::read). Without this option, a store has buffers of its own. Throws
  // Error that states how many bytes are needed if there are too few.
  std::optional<SharedRegion> staging = {};
};

// The position of the first element of a panel in the output: the coordinates that the store received, plus
// the panel's position in the tile. With `transposed`, `row` is a column of the output, and `col` a row; with
// `pairs`, `col` counts the columns of the sums, two for each column of the output.
struct PanelPlace {
  u32 row, col;
  std::optional<u32> batch;
  bool transposed;  // the panel's rows are the output's columns
};

// A function on tiles that changes sums before they are rounded. It receives one panel at a time, 64 rows and
// as many columns as fit into a staging buffer, so that values that it loads do not occupy registers for
// long. product/epilogue.h contains some epilogues; they compose like other functions. The function is also
// applied to elements outside the tensor, which are then dropped.
using Epilogue = std::function<RegisterTile<f32>(const RegisterTile<f32>& sums, const PanelPlace& place)>;

// The source of a store: a tile in wgmma_layout, or an accumulator.
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
// When this returns, the copies may still be reading the buffers; the next store waits for them, and so does
// the end of the role. Throws Error if no box fits the number of columns.
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

// Stores tiles of one size, whose panels can be stored one at a time.
class PanelStore {
 public:
  // Set `options.batch`, to any value, if the tensor has batches or rows are scattered; scattered rows need
  // no tensor map. Throws Error as store() does.
  PanelStore(DType type, std::optional<TensorMap> to, TileExtent tile, const StoreOptions& options = {},
             Where where = Where::here());

  // Returns the number of the tile's columns in a panel; if `options.columns` is set, all panels have this
  // width.
  int panel_columns() const;

  // Applies the epilogue to `panel`, and stores the result as one panel of a tile at row m, column n of the
  // output. Panels are numbered across each block of 64 rows in turn. They may be stored in any order, and
  // under a condition that is the same for the whole warpgroup.
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

// A store that overlaps with the products of the next tile. take() rounds a tile into separate registers,
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
  // Does the same through the buffers of `panels`, which may store other tiles once all steps of this store
  // are done.
  explicit DeferredStore(const PanelStore& panels, Where where = Where::here());

  // Returns the number of steps. Between two calls of take(), call each step once, in order; if steps are
  // omitted, a part of the tile is lost. Before the first take(), steps do nothing. Finishing the kernel
  // throws Error if no steps follow the last take().
  int steps() const;
  void step(int i, Where where = Where::here());

  // Takes a tile for the box at row m, column n.
  void take(const StoreSource& from, u32 m, u32 n, const Epilogue& epilogue = nullptr,
            std::optional<u32> batch = {}, Where where = Where::here());
  // Call this instead of take(), after all steps, to make the steps until the next take() do nothing. When it
  // returns, TMA has read the buffers of panels that were stored in the meantime.
  void skip(Where where = Where::here());
  // Runs all steps for the last tile.
  void finish(Where where = Where::here());

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace ptxbuilder
