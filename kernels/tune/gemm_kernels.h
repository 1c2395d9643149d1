// The kernels of the contenders of our own: each is compiled once, and ahead of its turn.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <thread>

#include "kernels/gemm/config.h"
#include "kernels/tune/our_kernel.h"

namespace ptxbuilder::bench {

// All but get() from one thread, which get() may be called by too.
class GemmKernels {
 public:
  GemmKernels(const Gpu& gpu, const OurOptions& options);
  ~GemmKernels();
  GemmKernels(const GemmKernels&) = delete;
  GemmKernels& operator=(const GemmKernels&) = delete;

  // Begins to compile it on another thread, behind what was wanted before.
  void want(const kernels::GemmOperation& operation, const kernels::GemmTile& tile);

  // The kernel, loaded; waits for it. Throws Error as the compiler and the device do.
  runtime::LoadedKernel& get(const kernels::GemmOperation& operation, const kernels::GemmTile& tile);
  // The same, the caller's own.
  std::unique_ptr<runtime::LoadedKernel> load(const kernels::GemmOperation& operation,
                                              const kernels::GemmTile& tile);

 private:
  struct Known {
    kernels::GemmOperation operation;
    kernels::GemmTile tile;
    std::optional<Compiled> compiled;
    std::string failure;
    std::unique_ptr<runtime::LoadedKernel> loaded;
    bool done = false;  // compiled, or failed
  };

  Known& known(const kernels::GemmOperation& operation, const kernels::GemmTile& tile);
  Known& compiled(const kernels::GemmOperation& operation, const kernels::GemmTile& tile);
  void work();

  const Gpu& gpu_;
  Compiler compiler_;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::map<std::string, std::vector<std::unique_ptr<Known>>> known_;  // by the tile's name
  std::deque<Known*> waiting_;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace ptxbuilder::bench
