// Strided copies of matrices with a separate kernel, for operands that TMA cannot reach where they are.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "runtime/compile/load.h"

namespace ptxbuilder::kernels {

// Matrices of `rows` x `columns` elements; element (b, i, j) is at b batch_stride + i stride + j elements
// from the start.
struct MatrixShape {
  int64_t rows = 0, columns = 0, batches = 1;
};
struct MatrixPlace {
  runtime::View memory = {};
  int64_t stride = 0, batch_stride = 0;  // elements
};

// One copy: its source and its destination.
struct MatrixCopy {
  MatrixShape shape;
  int element_bytes = 0;
  MatrixPlace from, to;
};

// Copies `count` matrices. Parameters of each: from, to (pointers to bytes); u64 from_row, to_row,
// from_batch, to_batch (bytes); u32 rows, columns, batches. All have elements of 1, 2 or 4 bytes, aligned to
// their size. Any grid (g, 1, 1) may be used.
Kernel copy_matrices(int element_bytes, int count);

// A launch that copies matrices.
struct CopyLaunch {
  runtime::LoadedKernel* kernel;
  runtime::LaunchOptions options;
  std::vector<runtime::Argument> arguments;  // kCopyParameters of each matrix; the first are from and to
};
inline constexpr size_t kCopyParameters = 9;

// Loads a kernel when it is first needed, and keeps it. Each element is read and written once, by 32 adjacent
// lanes at a time; memory between the rows is not touched. Any thread may call it at any time.
class MatrixCopier {
 public:
  MatrixCopier(runtime::Device& device, const Compiler& compiler)
      : device_(device), compiler_(compiler), multiprocessors_(device.properties().multiprocessors) {}

  // Loads the kernel of launch_of(); the addresses of the matrices do not matter.
  void prepare(std::span<const MatrixCopy> copies) { kernel(copies); }

  // Returns the launch for matrices that do not overlap. Throws Error if all of them together have 2^31 or
  // more blocks of 8 x 512 elements.
  CopyLaunch launch_of(std::span<const MatrixCopy> copies, runtime::Stream stream);
  // Queues one copy.
  void operator()(const MatrixCopy& copy, runtime::Stream stream);

 private:
  runtime::Device& device_;
  const Compiler& compiler_;
  int multiprocessors_;
  runtime::LoadedKernel& kernel(std::span<const MatrixCopy> copies);

  std::mutex mutex_;
  std::map<std::pair<int, int>, std::unique_ptr<runtime::LoadedKernel>> kernels_;  // by bytes and count
};

}  // namespace ptxbuilder::kernels
