// Makes a call of an operation visible to profilers and in error messages.
#pragma once

#include <optional>
#include <string>

#include "ptxbuilder/error.h"
#include "runtime/nvtx.h"

namespace ptxbuilder::kernels {

// Runs `body`, inside an NVTX range if a profiler is attached. If `body` throws an error of the device or of
// a kernel, the description of this call is added to the error. Since kernels fail when they run, an earlier
// call may have caused the failure. `described` returns the operation and its sizes.
template <class Described, class Body>
void told_call(Described described, Body body) {
  constexpr const char* kHowToWatch =
      ". To learn where kernels that do not end wait, set PTXBUILDER_WATCHDOG=1000, the milliseconds that a "
      "wait may take, before they are made";
  std::optional<runtime::NvtxRange> range;
  if (runtime::NvtxRange::is_on()) range.emplace(described().c_str());
  try {
    body();
  } catch (const Error& e) {
    if (e.kind() != Error::Kind::device) throw;
    throw Error(Where{}, std::string(e.what()) + "; this call is " + described() + kHowToWatch, e.kind());
  }
}

}  // namespace ptxbuilder::kernels
