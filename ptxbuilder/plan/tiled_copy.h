// Plans copies of tiles by many threads: the instruction, the elements of each thread, and their addresses.
#pragma once

#include "ptxbuilder/layout/swizzle.h"
#include "ptxbuilder/plan/copy_atom.h"
#include "ptxbuilder/plan/thread_access.h"

namespace ptxbuilder {

// Repeats a layout of (thread, value) -> element of a tile, such as an MmaAtom's, `count` times, each time
// `step` elements further. Threads are repeated for more warps, and values for more instructions; with a step
// of 0, several threads get the same elements.
struct Repeat {
  int64_t count, step;
};
Layout repeated(const Layout& thread_value, const std::vector<Repeat>& threads,
                const std::vector<Repeat>& values);

// Returns the layout for a tile with `tile_rows` rows, in whose corner the rows x cols elements are.
Layout within_rows(const Layout& thread_value, int64_t rows, int64_t cols, int64_t tile_rows);

// Divides a row-major tile among `threads` threads: `elements` contiguous elements at a time, with
// neighbouring threads adjacent along the rows. Throws Error if the tile has no such division.
Layout threads_along_rows(int64_t rows, int64_t cols, int64_t threads, int64_t elements,
                          Where where = Where::here());

// Maps (row, column) to the element of a row-major tile whose rows are cut into panels; all rows of one panel
// precede the next panel. A panel is as wide as the swizzle's span or, without a swizzle, has `panel_cols`
// columns; 0 means whole rows.
ComposedLayout panel_layout(DType type, int64_t rows, int64_t cols, Swizzle swizzle, int64_t panel_cols = 0);

// A copy of a tile by threads, each of which makes the same number of accesses.
class TiledCopy {
 public:
  // `thread_value` counts elements column by column in the tile that `memory` maps: (row, column) -> element,
  // from a start that is aligned to the swizzle's pattern. The values of a thread are in the order of its
  // registers. The threads of a warp are consecutive. Throws Error that names the thread and the access whose
  // elements are not contiguous in memory, or not aligned.
  TiledCopy(CopyAtom atom, DType type, const Layout& thread_value, const ComposedLayout& memory,
            Where where = Where::here());

  const CopyAtom& atom() const { return atom_; }
  DType dtype() const { return dtype_; }
  const ComposedLayout& memory() const { return memory_; }
  const Layout& thread_value() const { return thread_value_; }
  int threads() const { return threads_; }
  int accesses() const { return accesses_; }                  // instructions per thread
  int values() const { return accesses_ * access_values(); }  // elements per thread
  int access_values() const { return atom_.register_bytes() / size_of(dtype_); }

  // Map (thread, access) to the first element at the thread's address: as a number, counted column by column
  // in the tile, and as coordinates (row, column).
  const Layout& first_elements() const { return first_; }
  Layout coordinates() const;
  // Returns the address that the instruction uses for each access, in bytes from the tile's start.
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
