// Copies matrices with strides in a separate kernel, for operands that TMA cannot access in place.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "runtime/compile/load.h"

namespace ptxbuilder::kernels {

// The shape of a batch of matrices of `rows` x `columns` elements. A MatrixPlace holds their strides. Element
// (b, i, j) is at offset b * batch_stride + i * stride + j, in elements.
struct MatrixShape {
  int64_t rows = 0, columns = 0, batches = 1;
};
struct MatrixPlace {
  runtime::View memory = {};
  int64_t stride = 0, batch_stride = 0;  // in elements
};

// One copy, with its source and its destination.
struct MatrixCopy {
  MatrixShape shape;
  int element_bytes = 0;
  MatrixPlace from, to;
};

// Returns a kernel that copies `count` matrices. Its parameters for each matrix are `from` and `to` (pointers
// to bytes); u64 from_row, to_row, from_batch and to_batch (strides in bytes); and u32 rows, columns and
// batches. All matrices have elements of 1, 2 or 4 bytes, which are aligned to their size. Any grid (g, 1, 1)
// may be used.
Kernel copy_matrices(int element_bytes, int count);

// A launch that copies matrices.
struct CopyLaunch {
  runtime::LoadedKernel* kernel;
  runtime::LaunchOptions options;
  std::vector<runtime::Argument> arguments;  // kCopyParameters for each matrix, beginning with `from` and
                                             // `to`
};
inline constexpr size_t kCopyParameters = 9;

// Copies matrices. Loads a kernel when it is first needed, and stores it. Each element is read and written
// once; a warp accesses 32 adjacent elements at a time. Memory between the rows is not accessed. Any thread
// may call the functions at any time.
class MatrixCopier {
 public:
  MatrixCopier(runtime::Device& device, const Compiler& compiler)
      : device_(device), compiler_(compiler), multiprocessors_(device.properties().multiprocessors) {}

  // Loads the kernel that launch_of() needs for these copies; the addresses of the matrices are ignored.
  void prepare(std::span<const MatrixCopy> copies) { kernel(copies); }

  // Returns the launch that copies matrices, which must not overlap. Throws Error if the matrices together
  // have 2^31 or more blocks of 8 x 512 elements.
  CopyLaunch launch_of(std::span<const MatrixCopy> copies, runtime::Stream stream);
  // Queues one copy.
  void operator()(const MatrixCopy& copy, runtime::Stream stream);

 private:
  runtime::Device& device_;
  const Compiler& compiler_;
  int multiprocessors_;
  runtime::LoadedKernel& kernel(std::span<const MatrixCopy> copies);

  std::mutex mutex_;
  std::map<std::pair<int, int>, std::unique_ptr<runtime::LoadedKernel>> kernels_;  // indexed by element size
                                                                                   // and count
};

}  // namespace ptxbuilder::kernels
