// A tile says how the rows of a matrix are spread over threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "ptxbuilder/plan/register_layout.h"

namespace ptxbuilder::kernels {

// A thread has `vectors` accesses of `vector` elements along each of its rows, or `pieces` times as many, and
// `lanes` threads of a warp are next to each other along a row. A warp has some narrow rows, or `warps` of a
// CTA and `ctas` of a cluster share one.
struct RowTile {
  int vector = 1, vectors = 1;
  int lanes = 1;  // a power of two, 32 where several warps share a row
  int warps = 1, ctas = 1;
  int rows_of_thread = 1;
  bool is_wide = false;       // a thread has more of a row than its registers hold with sums over rows
  bool is_in_pieces = false;  // the warps pass along a row, a piece at a time
  int pieces = 1;             // of a thread's part of a row, which waits in shared memory if it has several
  int at_once = 1;            // CTAs that a multiprocessor is to hold

  bool is_shared() const { return warps > 1; }  // by warps
  bool waits() const { return pieces > 1; }     // in shared memory
  int warpgroups() const { return std::max(1, warps / kWarps); }
  // They count what is in registers at a time.
  int values_of_thread() const { return vector * vectors * rows_of_thread; }
  int columns_of_warp() const { return vector * vectors * lanes; }
  int columns_of_piece() const { return warps * columns_of_warp(); }
  int rows() const {
    return is_shared() ? 1 : RegisterLayout::kThreads / lanes * rows_of_thread;
  }  // of a CTA
  // A warpgroup's part has its rows or, if warps share one, a row for each of its four parts.
  RegisterLayout layout() const;
  friend bool operator==(const RowTile&, const RowTile&) = default;

  static constexpr int kWarps = 4;  // of a warpgroup
};

// A kernel's registers allow so much.
struct RowLimits {
  // A thread has at most so many elements of a row: of 16 bits by wide accesses, and of 32 bits or one by
  // one.
  int values = 32, values_of_words = 32;
  // It may have so many times as many where that lets a warp or a CTA hold a row that they would not hold
  // else; then RowSums lie in shared memory.
  int wide = 1;
  // The operation goes over a row once, so that four warpgroups of a CTA may pass along a wide one.
  bool in_pieces = false;
  // It takes a row's elements piece by piece, by Row::for_pieces() and over_pieces(), so that a wide row of
  // so many tensors may wait in shared memory.
  int waiting = 0;
  int rows_of_thread = 4;      // of narrow rows, at most
  int threads_at_once = 1024;  // of a multiprocessor, which leave a thread so many registers
};

// So many groups of CTAs take the rows of an operation that sums over rows: the rule of a launch, and its
// number.
std::string row_parts_rule(const RowTile& tile);
int64_t row_parts(const RowTile& tile, int64_t rows, int64_t multiprocessors);

// The most columns that a row may have.
inline constexpr int64_t kMostColumns = 262144;

// It gives the tile for rows of so many columns of elements of up to `bytes`; `vector` divides `columns`;
// by so many CTAs, unless they are 0. Throws Error where there are more columns than the threads of a cluster
// hold.
RowTile row_tile(int64_t columns, int bytes, int vector, const RowLimits& limits, int ctas = 0,
                 Where where = Where::here());

}  // namespace ptxbuilder::kernels
