// Manages the CUDA device's own stream. Waits for any stream with a time limit, so that a kernel that hangs
// does not hang the process. Any thread may use the queue at any time.
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
  // The limit of every wait for which the caller does not specify one.
  static constexpr std::chrono::milliseconds kLimit = std::chrono::seconds(30);

  // `about_failure` returns text that is appended to the error of a failed launch. `work_done` is called
  // after each wait.
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

  // Must be called before each driver call. Throws an Error if a kernel has failed or hung, because the
  // context can then no longer be used.
  void check_usable() const;

  // Throws an Error if `status` is not success. If the status shows that a kernel has failed, which nearly
  // every later driver call reports, the error names the last kernel that was launched.
  void expect(cu::Status status, std::string_view call);

  // Wait for all work that is queued on a stream, or for one event. Throw a TimeoutError after `limit`.
  void wait(std::chrono::milliseconds limit = kLimit, Stream stream = {});
  void wait(cu::Event event, std::chrono::milliseconds limit = kLimit);

  // Waits in destructors until nothing is queued. Returns false if that is impossible. Memory, modules and
  // the context must then remain until the process ends, because the driver calls that free them would never
  // return.
  bool settle() noexcept;

  // Returns a name for note_launch() that is valid as long as the queue exists.
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
  std::atomic<const std::string*> last_kernel_ = nullptr;  // the kernel that was queued last
  std::atomic<bool> failed_ = false;
  mutable std::mutex mutex_;  // guards the members below
  std::set<std::string> names_;
  std::string failure_;  // reason why the context cannot be used
};

}  // namespace ptxbuilder::runtime
