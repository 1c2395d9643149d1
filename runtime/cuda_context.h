// A GPU's primary context, which all CUDA code of a process shares.
#pragma once

#include <optional>
#include <string>

#include "runtime/driver.h"

namespace ptxbuilder::runtime {

class CudaContext {
 public:
  // Takes GPU `ordinal`, or the first that runs code for `target`. Throws Error when there is no driver, no
  // such GPU, or none of that kind.
  explicit CudaContext(const std::string& target, const std::string& library = "libcuda.so.1",
                       std::optional<cu::Ordinal> ordinal = std::nullopt);
  ~CudaContext();
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;

  const cu::Driver& driver() const { return driver_; }
  cu::Ordinal ordinal() const { return ordinal_; }
  int compute_capability() const { return compute_capability_; }
  int attribute(cu::DeviceAttribute attribute) const;

  // Lets kernels of this context reach the memory of another GPU's. Throws Error where the GPUs do not reach
  // each other.
  void reach(const CudaContext& peer) const;

  // Makes it the calling thread's context.
  void make_current() const { driver_.ctx_set_current(context_); }

  enum class For : uint8_t {
    memory,  // which belongs to this context
    launch,  // for which any context of the same GPU will do, such as the one of the caller's stream
  };
  // The same where the thread's will not do; gives the one of before, for leave().
  std::optional<cu::Context> enter(For what) const;
  void leave(cu::Context before) const noexcept { (void)driver_.ctx_set_current.status(before); }

  // While it lives, the context is the calling thread's, as nearly every call of the driver needs; then the
  // one is again that was before.
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

  // Leaves the context to the end of the process: releasing it would wait for a kernel that does not end.
  void abandon() { abandoned_ = true; }

 private:
  cu::Driver driver_;
  cu::Ordinal ordinal_ = 0;
  int compute_capability_ = 0;
  cu::Context context_ = nullptr;
  bool abandoned_ = false;
};

// While it lives, the calling thread may load kernels, make streams, and take, fill and free memory although
// a stream is captured, by this thread or by another: otherwise the driver refuses that, and ends the
// capture, where the capture was not begun as relaxed, which PyTorch's are not ("Stream Management",
// cuThreadExchangeStreamCaptureMode). Nothing that is called under it may touch the captured stream.
class RelaxedCapture {
 public:
  // Fails only where the driver has ended, which the call after it says.
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
  cu::CaptureMode mode_ = cu::CaptureMode::relaxed;  // then the thread's own
  bool is_changed_;
};

// The buffers for the log of the driver's PTX compiler and the options that hand them over. Line numbers are
// not among them: with CU_JIT_GENERATE_LINE_INFO the compiler of driver 580.159 corrupts the heap of the
// process within a few modules without .loc lines ("free(): invalid pointer"), whoever calls it.
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
