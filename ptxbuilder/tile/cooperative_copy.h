// Emits tiled copies: computes each thread's addresses from layouts, and emits the instructions of the copy.
#pragma once

#include "ptxbuilder/ir/global_tensor.h"
#include "ptxbuilder/plan/tiled_copy.h"
#include "ptxbuilder/tile/shared_place.h"

namespace ptxbuilder {

// Loads accesses [first, first + count) of a copy from shared memory at `from`, with ldmatrix or vectors.
// Returns the b32 registers that `thread`, 0 to copy.threads() - 1, then holds, low bits first. An access of
// 1 or 2 bytes fills one register, whose upper bits are 0. For ldmatrix, a whole warp must call this. Throws
// Error for cp.async.
std::vector<u32> load(const TiledCopy& copy, const SharedPlace& from, u32 thread,
                      Where where = Where::here());
std::vector<u32> load(const TiledCopy& copy, const SharedPlace& from, u32 thread, int first, int count,
                      Where where = Where::here());
// Stores registers in the order in which load() returns them, with stmatrix or vectors.
void store(const TiledCopy& copy, const SharedPlace& to, u32 thread, const std::vector<u32>& registers,
           Where where = Where::here());
void store(const TiledCopy& copy, const SharedPlace& to, u32 thread, const std::vector<u32>& registers,
           int first, int count, Where where = Where::here());

// Copy with vectors between registers and a tile of a global tensor, x.tile(row, col), whose columns have
// stride 1. Elements outside of the tensor are loaded as zeros and are not stored; `cols`, if given, must be
// a multiple of the number of elements of an access. Throws Error for another stride.
std::vector<u32> load(const TiledCopy& copy, const GlobalTile& from, u32 thread, Where where = Where::here());
void store(const TiledCopy& copy, const GlobalTile& to, u32 thread, const std::vector<u32>& registers,
           Where where = Where::here());

// Copies a tile from global to shared memory with cp.async; elements outside of the tensor become zeros. The
// caller commits the group, waits for it, and executes fence_proxy_async<Space::shared> before wgmma or TMA
// reads the tile. For a stage of a pipeline with ThreadProducers, Producer::commit() does all of this.
void load_async(const TiledCopy& copy, const SharedPlace& to, const GlobalTile& from, u32 thread,
                Where where = Where::here());

// Rows of a matrix in global memory that an index selects: row r of a tile is row index[r] of the matrix.
// Each copying thread stores the numbers of the rows that it copies, until point() selects others.
class GatheredRows {
 public:
  // The matrix has `rows` rows, which are `stride` elements apart, and `cols` contiguous columns. `copy` must
  // use cp.async, and the matrix's start and stride must be multiples of the size of one access.
  GatheredRows(const TiledCopy& copy, gmem start, u32 rows, u32 cols, u32 stride, u32 thread,
               Where where = Where::here());

  // From now on, row r of the tile is row index[first + r] of the matrix if first + r < end. Other rows, and
  // rows whose numbers are outside the matrix, are zeros. index[0] must always be readable.
  void point(gptr<s32> index, u32 first, u32 end, Where where = Where::here());
  // From now on, row r of the tile is row number(r) of the matrix, or zeros if the matrix has no such row.
  void point(const std::function<u32(u32 row)>& number, Where where = Where::here());

 private:
  friend void load_async(const SharedPlace&, const GatheredRows&, u32, Where);
  TiledCopy copy_;
  gmem start_;
  u32 rows_, cols_, stride_, thread_;
  std::vector<Var<u32>> of_access_;  // row of the matrix for each access
};

// Copies the tile's columns, beginning at `col`, with cp.async, as for a GlobalTile.
void load_async(const SharedPlace& to, const GatheredRows& from, u32 col, Where where = Where::here());

namespace detail {
// Adds accesses [first, first + count) of a view to the kernel's record, and sets the record's view, threads,
// addresses and elements. `element(thread, access, i)` is the position in the view of the i-th element that a
// thread holds of an access.
void record_access(ThreadCopyRecord record, const SharedPlace& place, const ThreadAccess& access, int first,
                   int count, const std::function<ElementRecord(int, int, int)>& element);
}  // namespace detail

}  // namespace ptxbuilder
