// Kernels that are loaded once, by what they compute and how.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/lazy.h"
#include "runtime/loaded_kernel.h"

namespace ptxbuilder::kernels {

// Any thread may call it at any time. Kernels stay where they are, as long as the cache is there.
template <class Operation, class Tile>
class KernelCache {
 public:
  // The kernel that `make` gave, as a unique_ptr, when this operation and tile first came. Those who want the
  // same kernel meanwhile wait for it, and others do not. Throws what `make` throws; the next one to ask
  // calls its own.
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
