// A cache of loaded kernels, indexed by the operation that they compute and their tile.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/lazy.h"
#include "runtime/loaded_kernel.h"

namespace ptxbuilder::kernels {

// A cache. Any thread may call its functions at any time. A kernel's address does not change as long as the
// cache exists.
template <class Operation, class Tile>
class KernelCache {
 public:
  // Returns the kernel for an operation and a tile. The first caller that requests it calls `make`, which
  // returns it as a unique_ptr. Meanwhile, callers that request the same kernel wait for it, and other
  // callers do not wait. Throws what `make` throws; the next caller then calls its own `make`.
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
