#include "runtime/cuda_context.h"

#include <fmt/format.h>

#include "runtime/launch_check.h"

namespace ptxbuilder::runtime {
namespace {

constexpr size_t kLogBytes = 64 * 1024;

int compute_capability_of(const cu::Driver& driver, cu::Ordinal ordinal) {
  int major = 0, minor = 0;
  driver.device_get_attribute(&major, cu::DeviceAttribute::compute_capability_major, ordinal);
  driver.device_get_attribute(&minor, cu::DeviceAttribute::compute_capability_minor, ordinal);
  return 10 * major + minor;
}

}  // namespace

CudaContext::CudaContext(const std::string& target, const std::string& library,
                         std::optional<cu::Ordinal> ordinal)
    : driver_(library) {
  driver_.init(0);
  int count = 0;
  driver_.device_get_count(&count);
  if (ordinal && (*ordinal < 0 || *ordinal >= count))
    throw Error(fmt::format("there is no GPU {}: the driver lists {}", *ordinal,
                            count == 0   ? "none"
                            : count == 1 ? "GPU 0 alone"
                                         : fmt::format("GPUs 0 to {}", count - 1)),
                Error::Kind::device);
  std::string found;
  for (int i = ordinal.value_or(0); i < (ordinal ? *ordinal + 1 : count) && !context_; ++i) {
    driver_.device_get(&ordinal_, i);
    compute_capability_ = compute_capability_of(driver_, ordinal_);
    if (runs_on(target, compute_capability_))
      driver_.device_primary_ctx_retain(&context_, ordinal_);
    else
      found += fmt::format("{}GPU {} has compute capability {}.{}", found.empty() ? "" : ", ", i,
                           compute_capability_ / 10, compute_capability_ % 10);
  }
  if (!context_)
    throw Error(
        fmt::format("no GPU runs {} code: {}{}", target, found.empty() ? "the driver lists none" : found,
                    target != "sm_90a" || found.empty()
                        ? ""
                        : "; kernels for Hopper run on an H100, H200 or GH200, and on the emulator anywhere"),
        Error::Kind::device);
}

CudaContext::~CudaContext() {
  // A failed release can be ignored, because the context is released anyway when the process ends.
  if (!abandoned_) (void)driver_.device_primary_ctx_release.status(ordinal_);
}

std::optional<cu::Context> CudaContext::enter(For what) const {
  cu::Context before = nullptr;
  driver_.ctx_get_current(&before);
  if (before == context_) return std::nullopt;
  if (what == For::launch && before) {
    cu::Ordinal ordinal = -1;
    driver_.ctx_get_device(&ordinal);
    if (ordinal == ordinal_) return std::nullopt;
  }
  make_current();
  return before;
}

void CudaContext::reach(const CudaContext& peer) const {
  if (peer.context_ == context_) return;
  const Scope scope(*this);
  if (!driver_.ctx_enable_peer_access.available())
    throw Error("reach: this driver has no cuCtxEnablePeerAccess", Error::Kind::device);
  const cu::Status status = driver_.ctx_enable_peer_access.status(peer.context_, 0);
  if (status == cu::Status::success || status == cu::Status::peer_access_already_enabled) return;
  throw Error(fmt::format("reach: GPU {} cannot access the memory of GPU {}: {}", ordinal_, peer.ordinal_,
                          driver_.loaded.explain(status)),
              Error::Kind::device);
}

int CudaContext::attribute(cu::DeviceAttribute attribute) const {
  int value = 0;
  driver_.device_get_attribute(&value, attribute, ordinal_);
  return value;
}

JitLog::JitLog() : errors_(kLogBytes, '\0'), information_(kLogBytes, '\0') {
  // The driver expects numbers in the bits of the pointers.
  auto number = [](uintptr_t value) { return reinterpret_cast<void*>(value); };
  const std::pair<cu::JitOption, void*> all[kCount] = {
      {cu::JitOption::error_log_buffer, errors_.data()},
      {cu::JitOption::error_log_buffer_size_bytes, number(kLogBytes)},
      {cu::JitOption::info_log_buffer, information_.data()},
      {cu::JitOption::info_log_buffer_size_bytes, number(kLogBytes)},
      {cu::JitOption::log_verbose, number(1)},
  };
  for (unsigned i = 0; i < kCount; ++i) std::tie(options_[i], values_[i]) = all[i];
}

}  // namespace ptxbuilder::runtime
