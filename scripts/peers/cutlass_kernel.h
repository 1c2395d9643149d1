// Declares the interface of a CUTLASS kernel for cutlass_peer. Each object file of cutlass_kernel.cu adds one
// kernel to the list.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace peer {

// D[m,n] = sum_k A[m,k] B[n,k], where all three matrices are row-major. A stride is the number of elements
// from one row to the next.
struct Problem {
  int m = 0, n = 0, k = 0;
  int64_t lda = 0, ldb = 0, ldd = 0;
};

struct Pointers {
  const void *a, *b;
  void* d;
};

// The order in which a persistent kernel processes its tiles.
struct Order {
  enum Raster { heuristic, along_m, along_n };
  Raster raster;
  int most_swizzle;  // swizzle of at most 1, 2, 4 or 8 tiles
};

// A kernel that is ready to launch for one problem, order and set of matrices.
class Launch {
 public:
  virtual ~Launch() = default;
  // Queues a launch. With `early`, the launch may begin before the previous one has ended, and the kernel
  // itself waits for that end. Returns "" or the error.
  virtual std::string queue(cudaStream_t stream, bool early) = 0;
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual std::string name() const = 0;  // such as "cooperative 128x256x64 2x1"
  virtual std::string input() const = 0;
  virtual std::string output() const = 0;
  virtual bool streams_k()
      const = 0;  // divides k among CTAs, through a workspace that early launches would share
  virtual size_t workspace_bytes(const Problem& problem, Order order) const = 0;
  // Returns null if CUTLASS rejects the problem. `workspace` must have the bytes that the kernel needs.
  virtual std::unique_ptr<Launch> prepare(const Problem& problem, Order order, Pointers at, void* workspace,
                                          cudaStream_t stream) const = 0;
};

std::vector<const Kernel*>& kernels();

}  // namespace peer
