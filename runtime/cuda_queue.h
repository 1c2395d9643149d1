// The stream of a CUDA device's own, and waits for any that end: a kernel that hangs costs a limit, not the
// process. Any thread may use it at any time.
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
  // The limit of every wait that the caller sets none for.
  static constexpr std::chrono::milliseconds kLimit = std::chrono::seconds(30);

  // `about_failure` gives what an error of a launch ends with, and `work_done` is called after a wait.
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

  // This is to be called before the driver is. Throws Error when a kernel has failed or hung: the context is
  // then lost.
  void check_usable() const;

  // Throws Error that names the last kernel launched when `status` says that a kernel failed, as nearly every
  // call of the driver does after it; else when the call itself failed.
  void expect(cu::Status status, std::string_view call);

  // Wait for all that was queued on a stream, or for one event. Throw TimeoutError after `limit`.
  void wait(std::chrono::milliseconds limit = kLimit, Stream stream = {});
  void wait(cu::Event event, std::chrono::milliseconds limit = kLimit);

  // This is for destructors: waits until nothing is queued. False where that cannot be had: then memory,
  // modules and the context are left to the end of the process, since the driver's calls to free them would
  // wait for ever.
  bool settle() noexcept;

  // A name that note_launch() takes: it lasts as long as the queue.
  const std::string* intern(const std::string& kernel);
  void note_launch(const std::string* kernel) { last_kernel_.store(kernel, std::memory_order_relaxed); }

 private:
  void wait_silently(std::chrono::milliseconds limit, Stream stream);  // calls no work_done
  void finish(cu::Status status, std::chrono::milliseconds limit);
  std::string last_kernel() const;
  [[nodiscard]] std::string fail(const std::string& why);

  CudaContext& context_;
  std::function<std::string()> about_failure_;
  std::function<void()> work_done_;
  cu::Stream stream_ = nullptr;
  std::atomic<const std::string*> last_kernel_ = nullptr;  // most recently queued
  std::atomic<bool> failed_ = false;
  mutable std::mutex mutex_;  // of the rest
  std::set<std::string> names_;
  std::string failure_;  // what made the context unusable
};

}  // namespace ptxbuilder::runtime
