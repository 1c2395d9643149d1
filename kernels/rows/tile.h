// Describes how rows of a matrix are distributed over threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "ptxbuilder/plan/register_layout.h"

namespace ptxbuilder::kernels {

// The distribution of rows over threads. A thread makes `vectors` accesses of `vector` elements along each of
// its rows, or `pieces` times as many, and `lanes` threads of a warp are adjacent along a row. Either a warp
// has several narrow rows, or `warps` warps of a CTA and `ctas` CTAs of a cluster share a row.
struct RowTile {
  int vector = 1, vectors = 1;
  int lanes = 1;  // a power of two; 32 if several warps share a row
  int warps = 1, ctas = 1;
  int rows_of_thread = 1;
  bool is_wide =
      false;  // true: a thread holds so many elements that sums over rows do not fit in its registers as well
  bool is_in_pieces = false;  // true: the warps move along a row, one piece at a time
  int pieces = 1;   // pieces of a thread's part of a row; if there are several, they are in shared memory
  int at_once = 1;  // number of CTAs that should run at once on an SM

  bool is_shared() const { return warps > 1; }  // several warps share a row
  bool waits() const { return pieces > 1; }     // the row is in shared memory
  int warpgroups() const { return std::max(1, warps / kWarps); }
  // These functions return how many elements are in registers at a time, for a thread and along a row of a
  // warp or of all warps.
  int values_of_thread() const { return vector * vectors * rows_of_thread; }
  int columns_of_warp() const { return vector * vectors * lanes; }
  int columns_of_piece() const { return warps * columns_of_warp(); }
  // Returns the number of rows per CTA.
  int rows() const { return is_shared() ? 1 : RegisterLayout::kThreads / lanes * rows_of_thread; }
  // Returns the layout of a warpgroup's tile. If warps share a row, the tile has a row for the part of each
  // of the four warps.
  RegisterLayout layout() const;
  friend bool operator==(const RowTile&, const RowTile&) = default;

  static constexpr int kWarps = 4;  // number of warps in a warpgroup
};

// The limits that the registers of a kernel impose on its tile.
struct RowLimits {
  // The maximum number of elements of a row that a thread may hold. `values` applies to 16-bit elements with
  // wide accesses, and `values_of_words` to 32-bit elements or single accesses.
  int values = 32, values_of_words = 32;
  // A factor by which both limits are multiplied if a warp or a CTA could not hold a row otherwise. RowSums
  // are then in shared memory.
  int wide = 1;
  // If true, the operation traverses a row only once, so that the warpgroups of one CTA may move along a wide
  // row.
  bool in_pieces = false;
  // The number of tensors whose wide rows are copied to shared memory; 0 if the operation does not support
  // this. The operation must process rows piece by piece, with Row::for_pieces() and Row::over_pieces().
  int waiting = 0;
  int rows_of_thread = 4;  // maximum for narrow rows
  int threads_at_once =
      1024;  // threads that should run at once on an SM; this limits the registers of a thread
  // A wider limit for rows of 16-bit elements with wide accesses. If a warp can hold a row with more than
  // `values` but at most `values_of_warp` elements per thread, a warp then holds the row, and
  // `threads_of_warps` replaces `threads_at_once`. A CTA then has four rows, so that fewer CTAs are launched.
  int values_of_warp = 0, threads_of_warps = 1024;
};

// These functions return the number of groups of CTAs that share the rows of an operation with summed
// results. row_parts_rule() returns it as a launch rule, and row_parts() as a number.
std::string row_parts_rule(const RowTile& tile);
int64_t row_parts(const RowTile& tile, int64_t rows, int64_t multiprocessors);

// The maximum number of columns in a row.
inline constexpr int64_t kMostColumns = 262144;

// Returns the tile for rows of `columns` elements of up to `bytes` bytes. `vector`, which must divide
// `columns`, is the number of elements per access. `ctas` is the number of CTAs that share a row, or 0 to
// choose it. Throws an Error if there are more columns than the threads of a cluster can hold.
RowTile row_tile(int64_t columns, int bytes, int vector, const RowLimits& limits, int ctas = 0,
                 Where where = Where::here());

}  // namespace ptxbuilder::kernels
