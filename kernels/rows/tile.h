// Describes how the rows of a matrix are distributed over threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "ptxbuilder/plan/register_layout.h"

namespace ptxbuilder::kernels {

// A thread makes `vectors` accesses of `vector` elements along each of its rows, or `pieces` times that
// number, and `lanes` threads of a warp are adjacent along a row. A warp has several narrow rows, or `warps`
// warps of a CTA and `ctas` CTAs of a cluster share one row.
struct RowTile {
  int vector = 1, vectors = 1;
  int lanes = 1;  // a power of two; 32 if several warps share a row
  int warps = 1, ctas = 1;
  int rows_of_thread = 1;
  bool is_wide = false;       // a thread holds more of a row than its registers can hold in addition to sums
                              // over rows
  bool is_in_pieces = false;  // the warps move along a row, one piece at a time
  int pieces = 1;             // pieces of a thread's part of a row; if there are several, they wait in shared
                              // memory
  int at_once = 1;            // CTAs that should run at once on an SM

  bool is_shared() const { return warps > 1; }  // among warps
  bool waits() const { return pieces > 1; }     // in shared memory
  int warpgroups() const { return std::max(1, warps / kWarps); }
  // Return the number of elements that are in registers at one time.
  int values_of_thread() const { return vector * vectors * rows_of_thread; }
  int columns_of_warp() const { return vector * vectors * lanes; }
  int columns_of_piece() const { return warps * columns_of_warp(); }
  int rows() const {
    return is_shared() ? 1 : RegisterLayout::kThreads / lanes * rows_of_thread;
  }  // rows of a CTA
  // A warpgroup's part has its own rows or, if warps share a row, one row for each of its four parts.
  RegisterLayout layout() const;
  friend bool operator==(const RowTile&, const RowTile&) = default;

  static constexpr int kWarps = 4;  // warps per warpgroup
};

// The limits that a kernel's registers set.
struct RowLimits {
  // The most elements of a row that a thread may hold: 16-bit elements with wide accesses, and 32-bit
  // elements or single accesses.
  int values = 32, values_of_words = 32;
  // A factor for the limits, which applies if a warp or a CTA could not otherwise hold a row; RowSums are
  // then in shared memory.
  int wide = 1;
  // The operation traverses a row only once, so four warpgroups of a CTA may move along a wide row.
  bool in_pieces = false;
  // The number of tensors whose wide rows may wait in shared memory, for an operation that processes a row's
  // elements piece by piece, with Row::for_pieces() and over_pieces().
  int waiting = 0;
  int rows_of_thread = 4;      // the most, for narrow rows
  int threads_at_once = 1024;  // threads that should run at once on an SM, which limits a thread's registers
  // A warp holds a row of 16-bit elements with wide accesses if that takes more than `values` but at most
  // `values_of_warp` elements of a thread. `threads_of_warps` then replaces `threads_at_once`. Such a CTA has
  // four rows, so that fewer CTAs are launched.
  int values_of_warp = 0, threads_of_warps = 1024;
};

// Return the number of groups of CTAs that share the rows of an operation that sums over rows: as the rule of
// a launch, and as a number.
std::string row_parts_rule(const RowTile& tile);
int64_t row_parts(const RowTile& tile, int64_t rows, int64_t multiprocessors);

// The most columns that a row may have.
inline constexpr int64_t kMostColumns = 262144;

// Returns the tile for rows of `columns` elements of up to `bytes` bytes; `vector` must divide `columns`;
// `ctas` CTAs share a row, unless it is 0. Throws Error if there are more columns than the threads of a
// cluster can hold.
RowTile row_tile(int64_t columns, int bytes, int vector, const RowLimits& limits, int ctas = 0,
                 Where where = Where::here());

}  // namespace ptxbuilder::kernels
