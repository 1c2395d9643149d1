// Stores tiles from registers to global memory, through shared memory and with TMA.
#pragma once

#include "ptxbuilder/product/accumulator.h"
#include "ptxbuilder/tile/tma.h"

namespace ptxbuilder {

// A row-major output in which threads store the columns that TMA cannot store. TMA needs rows that begin at
// multiples of 16 bytes, and writes complete units of 16 bytes at the ends of rows. TMA stores the first
// `by_tma` columns, whose size must be a multiple of 16 bytes or 0, and the tensor map has only these
// columns. More precisely, TMA stores all panels that end at or before `by_tma`, up to the last row of the
// tensor map. Threads store the elements of the other panels, up to `rows` and `cols`. Batches are `rows` *
// `stride` elements apart.
struct ThreadStore {
  gmem start;                      // address of the first batch; the other batches follow without gaps
  u32 rows, cols, stride, by_tma;  // `stride` is in elements
};

// Describes a row-major matrix whose row index[i] receives columns 0 to `cols` - 1 of row i of the output.
// The matrix has `rows` rows, which are `stride` elements apart. A row i is not written if row index[i] is
// outside the matrix, or if i is not less than the store's `batch`. Threads write 16 bytes at a time, so the
// start, the stride and `cols` must be multiples of 16 bytes. index[0] must always be readable. Rows that the
// index contains twice are written twice, in no particular order. If `adds` is true, elements of f32, f16 or
// bf16 are added to the matrix instead. Each addition is atomic and rounds; the order of additions to an
// element is not defined.
struct ScatteredRows {
  gmem start;
  u32 rows, cols, stride;
  gptr<s32> index;
  bool adds = false;
};

// Maps an element of the output to a tensor with more dimensions. `at` returns the coordinates of the element
// at a row, a column and, if there are batches, a batch. The columns of a box run along the innermost
// dimension only. The 64 rows of a box are folded (see FoldedRows) or, if `inner_rows` is 0, all run along
// the next dimension.
struct StorePlaces {
  std::function<std::vector<u32>(u32 row, u32 col, const std::optional<u32>& batch)> at;
  int inner_rows = 0;
};

// The options of store().
struct StoreOptions {
  // If true, stores D^T: the tensor's rows are the tile's columns. Use this for products whose operands were
  // exchanged.
  bool transposed = false;
  // The number of staging buffers of each warpgroup, 1 to 4. If there is only one buffer, each write waits
  // for the previous copy.
  int buffers = 2;
  // The number of columns of a panel, which must divide the output's columns. The default, 0, selects as many
  // columns as fit in a buffer.
  int columns = 0;
  // Allows columns to be stored twice, with the same values. If the columns of a tile do not fill complete
  // boxes of 128 bytes, the last panel then begins earlier. If the option is not set, boxes are narrow enough
  // to divide the columns. Do not set the option for an epilogue that reads the memory being stored.
  bool repeats = false;
  // Set this if the epilogue computes one column of the output from two columns of the tile, for example with
  // even_columns() and odd_columns() (epilogue.h). The output then has half of the tile's columns. Cannot be
  // combined with `transposed`.
  bool pairs = false;
  // The third coordinate of the boxes, for a tensor of batches.
  std::optional<u32> batch = {};
  // A function for batches in several tensors, which returns the tensor map of a batch, and the batch's third
  // coordinate in this map.
  std::function<std::pair<TensorMap, u32>(u32 batch)> place_of_batch = {};
  // Further coordinates, which are the same for all boxes.
  std::vector<uint32_t> outer = {};
  // If set, computes the coordinates of boxes. Folded rows cannot be combined with `transposed`.
  std::optional<StorePlaces> places = {};
  // If set, threads store the panels that TMA does not store completely, one element at a time.
  std::optional<ThreadStore> threads = {};
  // If set, a PanelStore stores to these rows, without TMA.
  std::optional<ScatteredRows> scattered = {};
  // The memory of the staging buffers: a tile, or a view of a tile, whose contents are lost. If no memory is
  // given, the store allocates its own buffers. Several stores by the same warpgroups may use the same
  // memory, one after the other. Before the store, all of the role's warpgroups must have finished using the
  // memory's contents. Before other data is written to the memory, the store must have finished, so call
  // wait_stores(0, StoreWait::read). If the memory is too small, the store throws an Error that states the
  // necessary number of bytes.
  std::optional<SharedRegion> staging = {};
};

// The position of a panel's first element in the output: the coordinates that the store received, plus the
// panel's position in the tile. If the store is transposed, `row` is a column of the output, and `col` is a
// row. With StoreOptions::pairs, `col` counts the columns of the sums, two for each column of the output.
struct PanelPlace {
  u32 row, col;
  std::optional<u32> batch;
  bool transposed;  // true if the panel's rows are the output's columns
};

// A function on tiles that transforms sums before they are rounded. The function receives one panel at a
// time: 64 rows, and as many columns as fit in a staging buffer. Values that an epilogue loads thus do not
// occupy registers for long. product/epilogue.h contains some epilogues, which compose like other functions.
// Epilogues are also applied to elements outside the tensor, and the results are dropped.
using Epilogue = std::function<RegisterTile<f32>(const RegisterTile<f32>& sums, const PanelPlace& place)>;

// The source of a store: a tile in wgmma_layout, or an accumulator.
class StoreSource {
 public:
  StoreSource(const Accumulator& from);  // NOLINT: implicit, so that store() accepts an accumulator
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

// Stores a tile with TMA to the box at row m, column n (of the output) of a row-major tensor. The tile passes
// through buffers of 64 rows x 128 bytes for each warpgroup of the role, or through `options.staging`.
// `epilogue`, if it is not empty, is applied to the tile, and the result is rounded to `type`: f32, f16,
// bf16, e4m3, e5m2 or, without an epilogue, the type of the tile. All threads of the warpgroup must call
// this. Elements outside the tensor are dropped. When the call returns, the copies may still be reading the
// buffers. The next store, and the end of the role, wait for these copies. Throws Error if no box fits the
// number of columns.
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

// Stores tiles of one size. The panels of a tile can also be stored one at a time.
class PanelStore {
 public:
  // Prepares stores of tiles of extent `tile`. Set `options.batch`, to any value, if the tensor has batches
  // or rows are scattered. Scattered rows do not need a tensor map. Throws Error under the same conditions as
  // store().
  PanelStore(DType type, std::optional<TensorMap> to, TileExtent tile, const StoreOptions& options = {},
             Where where = Where::here());

  // Returns the number of the tile's columns in a panel. All panels have this width if `options.columns` is
  // set.
  int panel_columns() const;

  // Applies the epilogue to `panel`, and stores the result as panel `number` of a tile at row m, column n of
  // the output. Panels are numbered across the first block of 64 rows, then across the next block, and so on.
  // Panels may be stored in any order, and under a condition that is the same in all threads of the
  // warpgroup.
  void store_panel(u32 number, const StoreSource& panel, u32 m, u32 n, const Epilogue& epilogue = nullptr,
                   std::optional<u32> batch = {}, Where where = Where::here()) const;
  // Stores all panels of a tile.
  void store(const StoreSource& from, u32 m, u32 n, const Epilogue& epilogue = nullptr,
             std::optional<u32> batch = {}, Where where = Where::here()) const;

 private:
  friend class DeferredStore;
  struct State;
  std::shared_ptr<const State> state_;
};

// A store that overlaps with the products of the next tile. take() rounds a tile into separate registers, and
// then the next products may begin. Each step() stores a part of the tile; call step() while wgmmas run. Only
// 16-bit types are possible. A tile of 64 rows x 256 columns occupies 64 registers of each thread.
//   DeferredStore out(DType::bf16, D, {64, 256});
//   for each tile: { ...; wgmma_group(...); out.step(0); wgmma_wait(0); ...; out.take(acc, m, n); }
//   out.finish();
class DeferredStore {
 public:
  // Prepares stores of tiles of extent `tile`. Set `options.batch`, to any value, if the tensor has batches;
  // take() receives the batch of each tile.
  DeferredStore(DType type, TensorMap to, TileExtent tile, const StoreOptions& options = {},
                Where where = Where::here());
  // Prepares stores through the buffers of `panels`. Once all steps of this store are done, `panels` may
  // store other tiles.
  explicit DeferredStore(const PanelStore& panels, Where where = Where::here());

  // Returns the number of steps. Between two calls to take(), call each step once, in order; otherwise, a
  // part of the tile is lost. Before the first take(), step() does nothing. Kernel::finish() throws Error if
  // no steps follow the last take().
  int steps() const;
  void step(int i, Where where = Where::here());

  // Rounds a tile into registers, from which the following steps store it to the box at row m, column n.
  void take(const StoreSource& from, u32 m, u32 n, const Epilogue& epilogue = nullptr,
            std::optional<u32> batch = {}, Where where = Where::here());
  // Makes step() do nothing until the next take(). Call this instead of take(), after all steps. When the
  // call returns, TMA has read the buffers of panels that were stored in the meantime.
  void skip(Where where = Where::here());
  // Stores the last tile by running all steps.
  void finish(Where where = Where::here());

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace ptxbuilder
