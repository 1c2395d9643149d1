// Kernels that are loaded once, and identified by what they compute and how.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/lazy.h"
#include "runtime/loaded_kernel.h"

namespace ptxbuilder::kernels {

// A cache, which any thread may call at any time. Kernels keep their addresses for as long as the cache
// exists.
template <class Operation, class Tile>
class KernelCache {
 public:
  // Returns the kernel that `make` returned, as a unique_ptr, when this operation and tile were first
  // requested. Callers that request the same kernel meanwhile wait for it; other callers do not wait. Throws
  // what `make` throws; the next caller then calls its own `make`.
  template <class Make>
  runtime::LoadedKernel& get(const Operation& operation, const Tile& tile, Make&& make) {
    return *known(operation, tile).kernel.get(std::forward<Make>(make));
  }

 private:
  struct Known {
    Operation operation;
    Tile tile;
    runtime::Lazy<std::unique_ptr<runtime::LoadedKernel>> kernel = {};
  };

  Known& known(const Operation& operation, const Tile& tile) {
    const std::lock_guard lock(mutex_);
    for (const auto& one : all_)
      if (one->operation == operation && one->tile == tile) return *one;
    return *all_.emplace_back(new Known{operation, tile});
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Known>> all_;
};

}  // namespace ptxbuilder::kernels
