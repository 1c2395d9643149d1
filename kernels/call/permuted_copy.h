// Copies of tensors whose modes change their order, with a separate kernel, for operands that a product
// cannot read in any other way.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/compile/load.h"

namespace ptxbuilder::kernels {

// Element (i, j, ..) is i from[0] + j from[1] + .. elements after the source address, and likewise after the
// destination, where no two elements share a place. Elements have 1, 2 or 4 bytes, to which addresses are
// aligned.
struct PermutedCopy {
  struct Mode {
    int64_t extent, from, to;
  };
  int element_bytes = 2;
  std::vector<Mode> modes;  // in any order
  runtime::View from = {}, to = {};
};

// A thread copies pieces of `vector` elements that are contiguous on both sides or, if the copy `transposes`,
// squares of `vector` rows and columns, which it transposes in its registers: columns are contiguous in the
// source, and rows in the destination. Pieces are numbered along the modes of an axis, and the first mode
// varies fastest. Single elements are transposed in shared memory.
struct PermutedCopyForm {
  static constexpr size_t kMost = 9;  // modes

  runtime::View from = {}, to = {};
  int element_bytes = 2, vector = 1;
  bool transposes = false;
  std::vector<PermutedCopy::Mode> rows = {}, columns = {};  // extents in pieces, strides from piece to piece
  int64_t row_stride = 0,
          column_stride = 0;  // within a square: of a row in the source, of a column in the copy
  int64_t block_rows = 1, block_columns = 1;  // pieces of a block, which one CTA copies
};
// Throws Error for a copy of more than 9 modes that do not fold.
PermutedCopyForm form_of(const PermutedCopy& copy);

// A kernel depends on this alone: the bytes, the vectors, the direction, and the numbers of modes.
using PermutedCopyKind = std::array<int, 5>;
PermutedCopyKind kind_of(const PermutedCopyForm& form);

// Returns the kernel for all forms of a kind. Parameters: from, to (pointers); u32 rows, columns: pieces; the
// QuickDivision of column_blocks; for each mode of rows and of columns its QuickDivision, except for the last
// mode's, and u64 from, to; and if squares are transposed the QuickDivision of block_rows, u32 block_columns,
// and u64 row_stride, column_stride. Strides are in bytes. The grid has a CTA for each block, those along the
// columns next to each other.
Kernel permuted_copy(const PermutedCopyForm& form);

// Loads a kernel when it is first needed, and keeps it. Any thread may call it at any time.
class PermutedCopier {
 public:
  PermutedCopier(runtime::Device& device, const LoadOptions& options);

  // Queues one copy. Memory between the elements of `to` is not touched.
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
