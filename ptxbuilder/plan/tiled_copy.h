// Copies of tiles by many threads: the instruction, the elements of each thread, and their addresses.
#pragma once

#include "ptxbuilder/layout/swizzle.h"
#include "ptxbuilder/plan/copy_atom.h"
#include "ptxbuilder/plan/thread_access.h"

namespace ptxbuilder {

// Repeats a layout of (thread, value) -> element of a tile, such as an MmaAtom's, `count` times, each `step`
// elements further on. Threads are repeated for more warps, values for more instructions; a step of 0 gives
// several threads the same elements.
struct Repeat {
  int64_t count, step;
};
Layout repeated(const Layout& thread_value, const std::vector<Repeat>& threads,
                const std::vector<Repeat>& values);

// Returns the same layout for a tile with `tile_rows` rows, whose corner is the rows x cols elements.
Layout within_rows(const Layout& thread_value, int64_t rows, int64_t cols, int64_t tile_rows);

// The division of a row-major tile when `threads` threads share it: `elements` contiguous elements at a time,
// with neighbouring threads adjacent along the rows. Throws Error when the tile has no such division.
Layout threads_along_rows(int64_t rows, int64_t cols, int64_t threads, int64_t elements,
                          Where where = Where::here());

// (row, column) -> element of a row-major tile whose rows are cut into panels, all rows of one before the
// next: as wide as the swizzle's span, or without swizzle of `panel_cols` columns, 0 for whole rows.
ComposedLayout panel_layout(DType type, int64_t rows, int64_t cols, Swizzle swizzle, int64_t panel_cols = 0);

// A copy of a tile by threads, each of which makes the same number of accesses.
class TiledCopy {
 public:
  // `thread_value` counts elements down the columns of the tile that `memory` maps: (row, column) -> element,
  // from a start that is aligned to the swizzle's pattern. The values of a thread are in the order of its
  // registers. Threads of warps are consecutive. Throws Error that names the thread and the access whose
  // elements are not contiguous in memory, or not aligned.
  TiledCopy(CopyAtom atom, DType type, const Layout& thread_value, const ComposedLayout& memory,
            Where where = Where::here());

  const CopyAtom& atom() const { return atom_; }
  DType dtype() const { return dtype_; }
  const ComposedLayout& memory() const { return memory_; }
  const Layout& thread_value() const { return thread_value_; }
  int threads() const { return threads_; }
  int accesses() const { return accesses_; }                  // instructions of a thread
  int values() const { return accesses_ * access_values(); }  // elements of a thread
  int access_values() const { return atom_.register_bytes() / size_of(dtype_); }

  // (thread, access) -> the first element that the thread's address leads to: counted down the columns of
  // the tile, and as coordinates (row, column).
  const Layout& first_elements() const { return first_; }
  Layout coordinates() const;
  // The address that the instruction uses for each access, in bytes from the tile's start.
  const ThreadAccess& access() const { return *access_; }
  int64_t address(int thread, int access) const { return access_->address(thread, access); }

  std::string describe() const;  // "128 threads x 4 ldmatrix.x4"

 private:
  CopyAtom atom_;
  DType dtype_;
  Layout thread_value_;
  ComposedLayout memory_;
  Layout first_;
  std::optional<ThreadAccess> access_;
  int threads_, accesses_;
};

}  // namespace ptxbuilder
