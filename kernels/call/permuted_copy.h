// Copies tensors with their modes in a different order, in a separate kernel, for operands that a product
// cannot read in any other way.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/compile/load.h"

namespace ptxbuilder::kernels {

// A copy. Element (i, j, ..) is i from[0] + j from[1] + .. elements after the source address, and likewise
// after the destination address, where no two elements may overlap. Elements have 1, 2 or 4 bytes, and
// addresses are aligned to them.
struct PermutedCopy {
  struct Mode {
    int64_t extent, from, to;
  };
  int element_bytes = 2;
  std::vector<Mode> modes;  // in any order
  runtime::View from = {}, to = {};
};

// A thread copies pieces of `vector` elements that are contiguous in the source and the destination. If the
// copy `transposes`, it copies squares of `vector` rows and columns and transposes them in its registers:
// columns are contiguous in the source, and rows in the destination. Pieces are numbered along the modes of
// an axis, and the first mode varies fastest. Single elements are transposed in shared memory.
//   A short mode may alternate fastest on one side, as real and imaginary parts do, while the mode around it
// is contiguous on the other side. A thread then copies `vector` elements of each of the short mode's
// `planes`, which are contiguous together on the first side, and sorts them in its registers.
struct PermutedCopyForm {
  static constexpr size_t kMost = 9;  // the most modes

  runtime::View from = {}, to = {};
  int element_bytes = 2, vector = 1;
  bool transposes = false;
  int planes = 1;                   // extent of the short mode, if there is one
  bool planes_are_in_copy = false;  // they are apart in the copy, and alternate in the source; or vice versa
  int64_t plane_stride = 0;         // elements from one plane to the next, where they are apart
  std::vector<PermutedCopy::Mode> rows = {}, columns = {};  // extents in pieces; strides from piece to piece
  int64_t row_stride = 0,
          column_stride = 0;  // within a square: of a row in the source, of a column in the copy
  int64_t block_rows = 1, block_columns = 1;  // pieces per block; one CTA copies a block
};
// Returns the form. Throws Error for a copy with more than 9 modes that cannot be merged.
PermutedCopyForm form_of(const PermutedCopy& copy);

// Everything that a kernel depends on: the bytes, the vectors, the direction, the planes, and the numbers of
// modes.
using PermutedCopyKind = std::array<int, 7>;
PermutedCopyKind kind_of(const PermutedCopyForm& form);

// Returns the kernel for all forms of a kind. Its parameters are from and to (pointers); u32 rows and
// columns, in pieces; the QuickDivision of column_blocks; for each mode of rows and of columns its
// QuickDivision, except for the last mode, and u64 from and to; if squares are transposed the QuickDivision
// of block_rows, u32 block_columns, and u64 row_stride and column_stride; and if there are planes u64
// plane_stride. Strides are in bytes.
// The grid has a CTA for each block, and blocks along the columns are adjacent.
Kernel permuted_copy(const PermutedCopyForm& form);

// Loads a kernel when it is first needed, and stores it. Any thread may call it at any time.
class PermutedCopier {
 public:
  PermutedCopier(runtime::Device& device, const LoadOptions& options);

  // Queues one copy. Memory between the elements of `to` is not accessed.
  void operator()(const PermutedCopyForm& copy, runtime::Stream stream);
  // Loads the kernel, because a capture could not wait for loading.
  void prepare(const PermutedCopyForm& copy) { kernel(copy); }

 private:
  runtime::LoadedKernel& kernel(const PermutedCopyForm& form);

  runtime::Device& device_;
  Compiler compiler_;
  std::mutex mutex_;
  std::map<PermutedCopyKind, std::unique_ptr<runtime::LoadedKernel>> kernels_;
};

}  // namespace ptxbuilder::kernels
