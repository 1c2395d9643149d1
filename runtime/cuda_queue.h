// Manages the CUDA device's own stream, and waits with a time limit for any stream, so that a kernel that
// hangs does not hang the process. Any thread may use the queue at any time.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "runtime/cuda_context.h"
#include "runtime/device.h"

namespace ptxbuilder::runtime {

class CudaQueue {
 public:
  // The limit of every wait for which the caller does not set one.
  static constexpr std::chrono::milliseconds kLimit = std::chrono::seconds(30);

  // `about_failure` returns text that is appended to a launch's error, and `work_done` is called after each
  // wait.
  CudaQueue(CudaContext& context, std::function<std::string()> about_failure,
            std::function<void()> work_done);
  ~CudaQueue();
  CudaQueue(const CudaQueue&) = delete;
  CudaQueue& operator=(const CudaQueue&) = delete;

  const CudaContext& context() const { return context_; }
  const cu::Driver& driver() const { return context_.driver(); }
  cu::Stream stream() const { return stream_; }
  cu::Stream handle(Stream stream) const {
    return stream.is_own() ? stream_ : static_cast<cu::Stream>(stream.handle());
  }

  // Must be called before each call of the driver. Throws Error if a kernel has failed or hung, because the
  // context can then no longer be used.
  void check_usable() const;

  // Throws Error that names the last kernel launched if `status` shows that a kernel failed, which nearly
  // every later call of the driver reports. Also throws Error if the call itself failed.
  void expect(cu::Status status, std::string_view call);

  // Wait for all work queued on a stream, or for one event. Throw TimeoutError after `limit`.
  void wait(std::chrono::milliseconds limit = kLimit, Stream stream = {});
  void wait(cu::Event event, std::chrono::milliseconds limit = kLimit);

  // Waits, in destructors, until nothing is queued. Returns false if the queue cannot become empty; memory,
  // modules and the context must then remain until the process ends, because the driver's calls to free them
  // would never return.
  bool settle() noexcept;

  // Returns a name for note_launch(), which exists as long as the queue.
  const std::string* intern(const std::string& kernel);
  void note_launch(const std::string* kernel) { last_kernel_.store(kernel, std::memory_order_relaxed); }

 private:
  void wait_silently(std::chrono::milliseconds limit, Stream stream);  // does not call work_done
  void finish(cu::Status status, std::chrono::milliseconds limit);
  std::string last_kernel() const;
  [[nodiscard]] std::string fail(const std::string& why);

  CudaContext& context_;
  std::function<std::string()> about_failure_;
  std::function<void()> work_done_;
  cu::Stream stream_ = nullptr;
  std::atomic<const std::string*> last_kernel_ = nullptr;  // most recently queued
  std::atomic<bool> failed_ = false;
  mutable std::mutex mutex_;  // guards the members below
  std::set<std::string> names_;
  std::string failure_;  // reason why the context cannot be used
};

}  // namespace ptxbuilder::runtime
