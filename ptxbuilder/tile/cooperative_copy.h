// Emits tiled copies: computes each thread's addresses from layouts, and emits the copy's instructions.
#pragma once

#include "ptxbuilder/ir/global_tensor.h"
#include "ptxbuilder/plan/tiled_copy.h"
#include "ptxbuilder/tile/shared_place.h"

namespace ptxbuilder {

// Execute all accesses of a copy, or accesses [first, first + count), which load from shared memory at `from`
// with ldmatrix or vectors. Both functions return the b32 registers that thread number `thread`, from 0 to
// copy.threads() - 1, then holds, low bits first. An access of 1 or 2 bytes fills one register, and the
// register's upper bits are 0. For ldmatrix, all threads of a warp must make this call. Both functions throw
// Error if the copy uses cp.async.
std::vector<u32> load(const TiledCopy& copy, const SharedPlace& from, u32 thread,
                      Where where = Where::here());
std::vector<u32> load(const TiledCopy& copy, const SharedPlace& from, u32 thread, int first, int count,
                      Where where = Where::here());
// Store registers with stmatrix or vectors. The registers must have the same order as the results of load().
void store(const TiledCopy& copy, const SharedPlace& to, u32 thread, const std::vector<u32>& registers,
           Where where = Where::here());
void store(const TiledCopy& copy, const SharedPlace& to, u32 thread, const std::vector<u32>& registers,
           int first, int count, Where where = Where::here());

// Copy a tile of a global tensor, such as x.tile(row, col), to or from registers, with vectors. The columns
// of the tensor must have stride 1; otherwise both functions throw Error. Elements outside the tensor are
// loaded as zeros and are not stored. If the tensor's `cols` is given, it must be a multiple of the number of
// elements of an access.
std::vector<u32> load(const TiledCopy& copy, const GlobalTile& from, u32 thread, Where where = Where::here());
void store(const TiledCopy& copy, const GlobalTile& to, u32 thread, const std::vector<u32>& registers,
           Where where = Where::here());

// Copies a tile from global to shared memory with cp.async. Elements outside the tensor become zeros. The
// caller must commit the group, wait for it, and execute fence_proxy_async<Space::shared> before wgmma or TMA
// reads the tile. For a stage of a pipeline with ThreadProducers, Producer::commit() does all of this.
void load_async(const TiledCopy& copy, const SharedPlace& to, const GlobalTile& from, u32 thread,
                Where where = Where::here());

// Rows of a matrix in global memory, selected by an index: row r of a tile is row index[r] of the matrix.
// Each copying thread holds the numbers of its rows in registers, until point() selects other rows.
class GatheredRows {
 public:
  // Describes a matrix of `rows` rows, which are `stride` elements apart, and `cols` contiguous columns.
  // `copy` must use cp.async, and the matrix's start and stride must be multiples of the size of one access.
  GatheredRows(const TiledCopy& copy, gmem start, u32 rows, u32 cols, u32 stride, u32 thread,
               Where where = Where::here());

  // Selects row index[first + r] of the matrix for row r of the tile if first + r < end. Other rows, and rows
  // whose numbers are outside the matrix, become zeros. index[0] must always be readable.
  void point(gptr<s32> index, u32 first, u32 end, Where where = Where::here());
  // Selects row number(r) of the matrix for row r of the tile, or zeros if the matrix has no row with this
  // number.
  void point(const std::function<u32(u32 row)>& number, Where where = Where::here());

 private:
  friend void load_async(const SharedPlace&, const GatheredRows&, u32, Where);
  TiledCopy copy_;
  gmem start_;
  u32 rows_, cols_, stride_, thread_;
  std::vector<Var<u32>> of_access_;  // row of the matrix that each access copies
};

// Copies the selected rows to a tile with cp.async, beginning at column `col` of the matrix. As for a
// GlobalTile, the caller must commit the group, wait for it, and execute the fence.
void load_async(const SharedPlace& to, const GatheredRows& from, u32 col, Where where = Where::here());

namespace detail {
// Sets the view, threads, addresses and elements of `record` for accesses [first, first + count) of a view,
// and adds `record` to the kernel's record. `element(thread, access, i)` returns the position in the view of
// the i-th element that the thread holds for the access.
void record_access(ThreadCopyRecord record, const SharedPlace& place, const ThreadAccess& access, int first,
                   int count, const std::function<ElementRecord(int, int, int)>& element);
}  // namespace detail

}  // namespace ptxbuilder
