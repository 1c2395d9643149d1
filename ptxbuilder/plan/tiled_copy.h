// Plans copies of tiles by many threads. A plan determines the instruction, the elements that each thread
// copies, and the addresses of these elements.
#pragma once

#include "ptxbuilder/layout/swizzle.h"
#include "ptxbuilder/plan/copy_atom.h"
#include "ptxbuilder/plan/thread_access.h"

namespace ptxbuilder {

// Repeats a layout (thread, value) -> element of a tile, such as an MmaAtom's layout. Each of the `count`
// repetitions begins `step` elements after the previous one. Threads are repeated for more warps, and values
// are repeated for more instructions. With a step of 0, several threads get the same elements.
struct Repeat {
  int64_t count, step;
};
Layout repeated(const Layout& thread_value, const std::vector<Repeat>& threads,
                const std::vector<Repeat>& values);

// Converts a layout for rows x cols elements to a layout for a tile of `tile_rows` rows whose upper left
// corner contains these elements.
Layout within_rows(const Layout& thread_value, int64_t rows, int64_t cols, int64_t tile_rows);

// Divides a row-major tile among `threads` threads, `elements` contiguous elements at a time. Consecutive
// threads are adjacent along the rows. Throws Error if the tile cannot be divided in this way.
Layout threads_along_rows(int64_t rows, int64_t cols, int64_t threads, int64_t elements,
                          Where where = Where::here());

// Returns the layout that maps (row, column) to the element of a row-major tile whose rows are cut into
// panels. All rows of one panel precede the next panel. A panel is as wide as the swizzle's span or, without
// a swizzle, has `panel_cols` columns; 0 means that a panel contains entire rows.
ComposedLayout panel_layout(DType type, int64_t rows, int64_t cols, Swizzle swizzle, int64_t panel_cols = 0);

// A copy of a tile by threads that all make the same number of accesses.
class TiledCopy {
 public:
  // Plans a copy. `memory` maps (row, column) of the tile to an element in memory, counted from a start that
  // is aligned to the swizzle's pattern. `thread_value` maps (thread, value) to an element of the tile,
  // counted column by column. The values of a thread are in the order of its registers. The threads of a warp
  // are consecutive. If the elements of an access are not contiguous in memory, or not aligned, throws an
  // Error that names the thread and the access.
  TiledCopy(CopyAtom atom, DType type, const Layout& thread_value, const ComposedLayout& memory,
            Where where = Where::here());

  const CopyAtom& atom() const { return atom_; }
  DType dtype() const { return dtype_; }
  const ComposedLayout& memory() const { return memory_; }
  const Layout& thread_value() const { return thread_value_; }
  int threads() const { return threads_; }
  int accesses() const { return accesses_; }                  // number of instructions per thread
  int values() const { return accesses_ * access_values(); }  // number of elements per thread
  int access_values() const { return atom_.register_bytes() / size_of(dtype_); }

  // Return layouts that map (thread, access) to the first element at the thread's address. first_elements()
  // yields the element's number, counted column by column in the tile, and coordinates() yields (row,
  // column).
  const Layout& first_elements() const { return first_; }
  Layout coordinates() const;
  // Return the address that the instruction uses for each access, in bytes from the tile's start.
  const ThreadAccess& access() const { return *access_; }
  int64_t address(int thread, int access) const { return access_->address(thread, access); }

  std::string describe() const;  // such as "128 threads x 4 ldmatrix.x4"

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
