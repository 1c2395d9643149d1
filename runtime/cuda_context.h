// Manages a GPU's primary context, which all CUDA code in a process shares.
#pragma once

#include <optional>
#include <string>

#include "runtime/driver.h"

namespace ptxbuilder::runtime {

class CudaContext {
 public:
  // Uses GPU `ordinal` or, if it is not set, the first GPU that runs code for `target`. Throws an Error if
  // there is no driver, no GPU with this number, or no GPU that runs such code.
  explicit CudaContext(const std::string& target, const std::string& library = "libcuda.so.1",
                       std::optional<cu::Ordinal> ordinal = std::nullopt);
  ~CudaContext();
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;

  const cu::Driver& driver() const { return driver_; }
  cu::Ordinal ordinal() const { return ordinal_; }
  int compute_capability() const { return compute_capability_; }
  int attribute(cu::DeviceAttribute attribute) const;

  // Lets kernels of this context access the memory of `peer`. Throws an Error if the GPUs cannot access each
  // other.
  void reach(const CudaContext& peer) const;

  // Makes this the calling thread's context.
  void make_current() const { driver_.ctx_set_current(context_); }

  enum class For : uint8_t {
    memory,  // the call needs this context, to which the memory belongs
    launch,  // the call works in any context of the same GPU, such as that of the caller's stream
  };
  // Makes this the calling thread's context if the current context does not suffice. In that case, returns
  // the previous context, which must be passed to leave().
  std::optional<cu::Context> enter(For what) const;
  void leave(cu::Context before) const noexcept { (void)driver_.ctx_set_current.status(before); }

  // Makes this the calling thread's context while the Scope exists, because nearly every driver call requires
  // it. The destructor restores the previous context.
  class Scope {
   public:
    explicit Scope(const CudaContext& context, For what = For::memory)
        : context_(context), before_(context.enter(what)) {}
    ~Scope() {
      if (before_) context_.leave(*before_);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const CudaContext& context_;
    std::optional<cu::Context> before_;
  };

  // Leaves the context alive until the process ends, because releasing it would wait for a kernel that never
  // ends.
  void abandon() { abandoned_ = true; }

 private:
  cu::Driver driver_;
  cu::Ordinal ordinal_ = 0;
  int compute_capability_ = 0;
  cu::Context context_ = nullptr;
  bool abandoned_ = false;
};

// While this object exists, the calling thread may load kernels, create streams, and allocate, fill and free
// memory, even if this thread or another captures a stream. Otherwise, the driver rejects these calls and
// ends the capture, unless the capture was begun as relaxed, which PyTorch does not do ("Stream Management",
// cuThreadExchangeStreamCaptureMode). Code that runs while this object exists must not use the captured
// stream.
class RelaxedCapture {
 public:
  // Fails only if the driver has shut down. The next driver call will report that.
  explicit RelaxedCapture(const cu::Driver& driver) noexcept
      : driver_(driver),
        is_changed_(driver.thread_exchange_capture_mode.status(&mode_) == cu::Status::success) {}
  ~RelaxedCapture() {
    if (is_changed_) (void)driver_.thread_exchange_capture_mode.status(&mode_);
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const cu::Driver& driver_;
  cu::CaptureMode mode_ = cu::CaptureMode::relaxed;  // after the constructor, the thread's previous mode
  bool is_changed_;
};

// The buffers for the log of the driver's PTX compiler, and the options that pass them to the driver. Line
// numbers are not requested: with CU_JIT_GENERATE_LINE_INFO, the compiler of driver 580.159 corrupts the heap
// of the process after a few modules without .loc lines ("free(): invalid pointer"), whichever program calls
// it.
class JitLog {
 public:
  JitLog();

  unsigned count() const { return kCount; }
  cu::JitOption* options() { return options_; }
  void** values() { return values_; }
  std::string errors() const { return errors_.c_str(); }
  std::string information() const { return information_.c_str(); }

 private:
  static constexpr unsigned kCount = 5;

  std::string errors_, information_;
  cu::JitOption options_[kCount];
  void* values_[kCount];
};

}  // namespace ptxbuilder::runtime
