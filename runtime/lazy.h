// A value that the first who asks for it makes, and all others wait for.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <utility>

namespace ptxbuilder::runtime {

// This is not std::call_once, through which an exception ends the process where libgcc is linked statically,
// as in libptxbuilder.so and ptxb: pthread_once() unwinds by the libgcc_s that libc loads as well.
template <class T>
class Lazy {
 public:
  // The value that `make` returned when it was first called. Throws what it throws; the next one to ask calls
  // its own.
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
