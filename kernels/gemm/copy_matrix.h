// A strided copy of matrices by a kernel of one's own, for operands that TMA cannot reach where they lie.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "runtime/compile/load.h"

namespace ptxbuilder::kernels {

// Matrices of `rows` x `columns` elements; element (b, i, j) lies at b batch_stride + i stride + j elements
// from the start.
struct MatrixShape {
  int64_t rows = 0, columns = 0, batches = 1;
};
struct MatrixPlace {
  runtime::View memory = {};
  int64_t stride = 0, batch_stride = 0;  // elements
};

// Parameters: from, to (pointers to bytes); u64 from_row, to_row, from_batch, to_batch (bytes); u32 rows,
// columns, batches. Elements of 1, 2 or 4 bytes, aligned to their size. Any grid (g, 1, 1) serves.
Kernel copy_matrix(int element_bytes);

// Loads the kernel when it is first needed, and keeps it. Reads and writes each element once, 32 lanes side
// by side; nothing between the rows is touched. Any thread may call it at any time.
class MatrixCopy {
 public:
  MatrixCopy(runtime::Device& device, const Compiler& compiler)
      : device_(device), compiler_(compiler), multiprocessors_(device.properties().multiprocessors) {}

  // Loads the kernel for elements of this size.
  void prepare(int element_bytes);

  // Queued. Throws Error for more than 2^31 blocks of 8 x 512 elements.
  void operator()(const MatrixShape& shape, int element_bytes, const MatrixPlace& from, const MatrixPlace& to,
                  runtime::Stream stream);

 private:
  runtime::Device& device_;
  const Compiler& compiler_;
  int multiprocessors_;
  runtime::LoadedKernel& kernel(int element_bytes);

  std::mutex mutex_;
  std::map<int, std::unique_ptr<runtime::LoadedKernel>> kernels_;  // by bytes of an element
};

}  // namespace ptxbuilder::kernels
