// A value that the first caller computes while all other callers wait for it.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <utility>

namespace ptxbuilder::runtime {

// Replaces std::call_once. If libgcc is linked statically, as in libptxbuilder.so and ptxb, an exception that
// passes through std::call_once ends the process, because pthread_once() unwinds with the libgcc_s that libc
// loads.
template <class T>
class Lazy {
 public:
  // Returns the value that the first successful `make` has returned. Rethrows what `make` throws; the next
  // caller then calls its own `make`.
  template <class Make>
  T& get(Make&& make) {
    if (T* known = ready_.load(std::memory_order_acquire)) return *known;
    const std::lock_guard lock(making_);
    if (!value_) ready_.store(&value_.emplace(std::forward<Make>(make)()), std::memory_order_release);
    return *value_;
  }

 private:
  std::mutex making_;
  std::optional<T> value_;
  std::atomic<T*> ready_ = nullptr;
};

}  // namespace ptxbuilder::runtime
