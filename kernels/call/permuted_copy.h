// Copies tensors in a separate kernel that reorders their modes, for operands that a product cannot read
// otherwise.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/compile/load.h"

namespace ptxbuilder::kernels {

// A copy. In the source, element (i, j, ..) is i * modes[0].from + j * modes[1].from + .. elements after the
// source address; in the destination, `to` takes the place of `from`, and no two elements may overlap.
// Elements have 1, 2 or 4 bytes, and addresses are multiples of that size.
struct PermutedCopy {
  struct Mode {
    int64_t extent, from, to;
  };
  int element_bytes = 2;
  std::vector<Mode> modes;  // in any order
  runtime::View from = {}, to = {};
};

// A thread copies pieces of `vector` elements that are contiguous in the source and the destination. If
// `transposes` is set, a thread copies squares of `vector` rows and columns and transposes them in its
// registers; columns are then contiguous in the source, and rows in the destination. Single elements (a
// `vector` of 1) are transposed in shared memory. Pieces are numbered along the modes of an axis, and the
// first mode varies fastest.
//   A short mode may alternate fastest on one side, like real and imaginary parts, while the mode around it
// is contiguous on the other side. A thread then copies `vector` elements of each of the short mode's
// `planes`, which are contiguous together on the first side, and sorts them in its registers.
struct PermutedCopyForm {
  static constexpr size_t kMost = 9;  // the largest number of modes

  runtime::View from = {}, to = {};
  int element_bytes = 2, vector = 1;
  bool transposes = false;
  int planes = 1;  // extent of the short mode; 1 if there is none
  bool planes_are_in_copy =
      false;  // true: planes alternate in the source and are apart in the copy; false: vice versa
  int64_t plane_stride = 0;  // elements from one plane to the next, on the side on which they are apart
  std::vector<PermutedCopy::Mode> rows = {}, columns = {};  // extents in pieces; strides from piece to piece
  int64_t row_stride = 0,
          column_stride =
              0;  // within a square: from row to row in the source, from column to column in the destination
  int64_t block_rows = 1, block_columns = 1;  // pieces per block; one CTA copies a block
};
// Returns the form of a copy. Throws Error if more than 9 modes remain after merging.
PermutedCopyForm form_of(const PermutedCopy& copy);

// The properties of a copy that determine its kernel. They are the bytes of an element, the vector, the
// direction, the planes, and the numbers of modes.
using PermutedCopyKind = std::array<int, 7>;
PermutedCopyKind kind_of(const PermutedCopyForm& form);

// Returns the kernel for all forms of a kind. Its first parameters are `from` and `to` (pointers), u32 rows
// and columns (in pieces), and the QuickDivision of column_blocks. Then each mode of the rows and of the
// columns has its QuickDivision, except the last mode of each axis, and u64 from and to. If squares are
// transposed, the QuickDivision of block_rows, u32 block_columns, and u64 row_stride and column_stride
// follow; if there are planes, u64 plane_stride follows. Strides are in bytes. The grid has a CTA for each
// block, and consecutive CTAs copy blocks that are adjacent along the columns.
Kernel permuted_copy(const PermutedCopyForm& form);

// Copies tensors. Loads a kernel when it is first needed, and stores it. Any thread may call the functions at
// any time.
class PermutedCopier {
 public:
  PermutedCopier(runtime::Device& device, const LoadOptions& options);

  // Queues one copy. Memory between the elements of `to` is not accessed.
  void operator()(const PermutedCopyForm& copy, runtime::Stream stream);
  // Loads the kernel, because it cannot be loaded during a capture.
  void prepare(const PermutedCopyForm& copy) { kernel(copy); }

 private:
  runtime::LoadedKernel& kernel(const PermutedCopyForm& form);

  runtime::Device& device_;
  Compiler compiler_;
  std::mutex mutex_;
  std::map<PermutedCopyKind, std::unique_ptr<runtime::LoadedKernel>> kernels_;
};

}  // namespace ptxbuilder::kernels
