// Emits tiled copies: each thread's addresses from layouts, and its instructions.
#pragma once

#include "ptxbuilder/ir/global_tensor.h"
#include "ptxbuilder/plan/tiled_copy.h"
#include "ptxbuilder/tile/shared_place.h"

namespace ptxbuilder {

// Returns what `thread`, 0 to copy.threads() - 1, holds after loading accesses [first, first + count) of a
// copy by ldmatrix or vectors from shared memory at `from`: b32 registers, low bits first. Accesses of 1 and
// 2 bytes have a register each, the rest 0. For ldmatrix, a whole warp calls it. Throws Error for cp.async.
std::vector<u32> load(const TiledCopy& copy, const SharedPlace& from, u32 thread,
                      Where where = Where::here());
std::vector<u32> load(const TiledCopy& copy, const SharedPlace& from, u32 thread, int first, int count,
                      Where where = Where::here());
// The reverse, by stmatrix or vectors, of as many registers.
void store(const TiledCopy& copy, const SharedPlace& to, u32 thread, const std::vector<u32>& registers,
           Where where = Where::here());
void store(const TiledCopy& copy, const SharedPlace& to, u32 thread, const std::vector<u32>& registers,
           int first, int count, Where where = Where::here());

// By vectors, from and to a tile of a tensor in global memory, x.tile(row, col), whose columns have stride 1.
// Elements outside are loaded as zeros and not stored; with `cols`, that must be a multiple of an access'
// elements. Throws Error for another stride.
std::vector<u32> load(const TiledCopy& copy, const GlobalTile& from, u32 thread, Where where = Where::here());
void store(const TiledCopy& copy, const GlobalTile& to, u32 thread, const std::vector<u32>& registers,
           Where where = Where::here());

// cp.async of a tile from global to shared memory; what is outside arrives as zeros. The caller commits the
// group, waits for it, and executes fence_proxy_async<Space::shared> before the async proxy (wgmma, TMA)
// reads. Into a stage of a pipeline with ThreadProducers, Producer::commit() does all of that.
void load_async(const TiledCopy& copy, const SharedPlace& to, const GlobalTile& from, u32 thread,
                Where where = Where::here());

// Rows of a matrix in global memory that an index names: a tile whose row r is row index[r] of the matrix.
// Each thread of a copy keeps the numbers of the rows that it copies, until point() names others.
class GatheredRows {
 public:
  // The matrix has `rows` rows, `stride` elements apart, and `cols` columns side by side. `copy` is by
  // cp.async, and the matrix's start and its stride are multiples of what one of its accesses has.
  GatheredRows(const TiledCopy& copy, gmem start, u32 rows, u32 cols, u32 stride, u32 thread,
               Where where = Where::here());

  // Row r of the tile is from now on row index[first + r] of the matrix where first + r < end. Other rows are
  // zeros, and so are those that the matrix does not have. index[0] can be read in any case.
  void point(gptr<s32> index, u32 first, u32 end, Where where = Where::here());
  // Row r of the tile is from now on row number(r) of the matrix, or zeros where that is none.
  void point(const std::function<u32(u32 row)>& number, Where where = Where::here());

 private:
  friend void load_async(const SharedPlace&, const GatheredRows&, u32, Where);
  TiledCopy copy_;
  gmem start_;
  u32 rows_, cols_, stride_, thread_;
  std::vector<Var<u32>> of_access_;  // the matrix's row
};

// cp.async of the tile's columns from `col` on, as of a GlobalTile.
void load_async(const SharedPlace& to, const GatheredRows& from, u32 col, Where where = Where::here());

namespace detail {
// Adds to the kernel's record what accesses [first, first + count) of a view do: `element(thread, access, i)`
// is the i-th that a thread holds of one, as the place's view has it. The record's view, threads, addresses
// and elements are set here.
void record_access(ThreadCopyRecord record, const SharedPlace& place, const ThreadAccess& access, int first,
                   int count, const std::function<ElementRecord(int, int, int)>& element);
}  // namespace detail

}  // namespace ptxbuilder
