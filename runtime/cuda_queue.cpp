#include "runtime/cuda_queue.h"

#include <fmt/format.h>

#include <thread>

#include "runtime/device.h"

namespace ptxbuilder::runtime {
namespace {

using cu::Status;
using std::chrono::milliseconds;

// Calls `query` until it returns a status other than not_ready, or until `limit` has passed. The intervals
// grow to 1/8 of the time that has passed so far. Polling is necessary because the driver's own waits have no
// limit.
template <class Query>
Status poll(Query&& query, milliseconds limit) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  for (;;) {
    if (Status status = query(); status != Status::not_ready) return status;
    const Clock::duration waited = Clock::now() - start;
    if (waited >= limit) return Status::not_ready;
    if (waited > std::chrono::microseconds(100))
      std::this_thread::sleep_for(std::min<Clock::duration>(waited / 8, milliseconds(1)));
  }
}

// Returns whether a failure of a kernel or of the hardware causes this status. Such a failure destroys the
// context, and every later call returns the same status.
bool ends_context(Status status) {
  switch (status) {
    case Status::ecc_uncorrectable:
    case Status::contained:
    case Status::illegal_address:
    case Status::device_assert:
    case Status::hardware_stack_error:
    case Status::illegal_instruction:
    case Status::misaligned_address:
    case Status::invalid_address_space:
    case Status::invalid_pc:
    case Status::launch_failed:
    case Status::unknown:
      return true;
    default:
      return false;
  }
}

}  // namespace

CudaQueue::CudaQueue(CudaContext& context, std::function<std::string()> about_failure,
                     std::function<void()> work_done)
    : context_(context), about_failure_(std::move(about_failure)), work_done_(std::move(work_done)) {
  const CudaContext::Scope scope(context_);
  const RelaxedCapture any_capture(driver());
  driver().stream_create(&stream_, cu::kStreamNonBlocking);
}

CudaQueue::~CudaQueue() {
  const RelaxedCapture any_capture(driver());
  if (settle()) (void)driver().stream_destroy.status(stream_);
}

void CudaQueue::check_usable() const {
  if (!failed_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(mutex_);
  throw Error("the device cannot be used again after: " + failure_, Error::Kind::device);
}

const std::string* CudaQueue::intern(const std::string& kernel) {
  const std::lock_guard lock(mutex_);
  return &*names_.insert(kernel).first;
}

std::string CudaQueue::last_kernel() const {
  const std::string* name = last_kernel_.load(std::memory_order_relaxed);
  return name ? *name : "";
}

// Records the first failure, which is the cause of all later ones. Returns `why`.
std::string CudaQueue::fail(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (!failed_.load(std::memory_order_relaxed)) failure_ = why;
  failed_.store(true, std::memory_order_release);
  return why;
}

void CudaQueue::expect(Status status, std::string_view call) {
  if (status == Status::success) return;
  if (!ends_context(status)) driver().loaded.fail(call, status);
  throw Error(fail(fmt::format("kernel '{}' or one queued before it failed, as {} reported: {}{}",
                               last_kernel(), call, driver().loaded.explain(status), about_failure_())),
              Error::Kind::device);
}

void CudaQueue::finish(Status status, milliseconds limit) {
  if (status != Status::not_ready) return expect(status, "waiting for the stream");
  context_.abandon();
  const std::string waits = about_failure_();
  throw TimeoutError(fail(fmt::format(
      "kernel '{}' had not finished after {} ms: it may wait for an mbarrier or a grid dependency that is "
      "never completed; only the end of this process stops it{}",
      last_kernel(), limit.count(),
      waits.empty() ? "; to report what it waits for, build it with --watchdog, while a WatchdogScope is "
                      "open, or with PTXBUILDER_WATCHDOG=1000 in the environment of calls"
                    : waits)));
}

void CudaQueue::wait_silently(milliseconds limit, Stream stream) {
  check_usable();
  const CudaContext::Scope scope(context_);
  finish(poll([&] { return driver().stream_query.status(handle(stream)); }, limit), limit);
  // This returns at once, because the stream is done, but it makes the driver print what kernels have
  // printed.
  finish(driver().stream_synchronize.status(handle(stream)), limit);
}

void CudaQueue::wait(milliseconds limit, Stream stream) {
  wait_silently(limit, stream);
  work_done_();
}

void CudaQueue::wait(cu::Event event, milliseconds limit) {
  check_usable();
  const CudaContext::Scope scope(context_);
  finish(poll([&] { return driver().event_query.status(event); }, limit), limit);
  work_done_();
}

bool CudaQueue::settle() noexcept {
  try {
    wait_silently(kLimit, {});
  } catch (const Error&) {
    return false;  // failure_ contains the reason, which the next call that may throw will report
  }
  return true;
}

}  // namespace ptxbuilder::runtime
