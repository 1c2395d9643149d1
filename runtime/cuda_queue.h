// The stream that a CUDA device queues its work on, with waits that end: a kernel that hangs costs a limit,
// not the process.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "runtime/cuda_context.h"

namespace ptxbuilder::runtime {

class CudaQueue {
 public:
  // Of every wait that the caller sets no limit for.
  static constexpr std::chrono::milliseconds kLimit = std::chrono::seconds(30);

  explicit CudaQueue(CudaContext& context);
  ~CudaQueue();
  CudaQueue(const CudaQueue&) = delete;
  CudaQueue& operator=(const CudaQueue&) = delete;

  const CudaContext& context() const { return context_; }
  const cu::Driver& driver() const { return context_.driver(); }
  cu::Stream stream() const { return stream_; }

  // To be called before the driver is. Throws Error when a kernel has failed or hung: the context is then
  // lost.
  void activate() const;

  // Throws Error that names the last kernel launched when `status` says that a kernel failed, as nearly every
  // call of the driver does after it; else when the call itself failed.
  void expect(cu::Status status, std::string_view call);

  // Wait for all that was queued, or for one event. Throw TimeoutError after `limit`.
  void wait(std::chrono::milliseconds limit = kLimit);
  void wait(cu::Event event, std::chrono::milliseconds limit = kLimit);

  // For destructors: waits until nothing is queued. False where that cannot be had: then memory, modules and
  // the context are left to the end of the process, since the driver's calls to free them would wait for
  // ever.
  bool settle() noexcept;

  void note_launch(const std::string& kernel) { last_kernel_ = kernel; }

 private:
  void finish(cu::Status status, std::chrono::milliseconds limit);

  CudaContext& context_;
  cu::Stream stream_ = nullptr;
  std::string last_kernel_;  // most recently queued
  std::string failure_;      // what made the context unusable; empty while it is usable
};

}  // namespace ptxbuilder::runtime
