#include "kernels/call/watched.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "ptxbuilder/report_format.h"

namespace ptxbuilder::kernels {

WatchedKernels::WatchedKernels() {
  const char* text = std::getenv("PTXBUILDER_WATCHDOG");
  if (!text || WatchdogScope::milliseconds() > 0) return;
  const std::string_view words = text;
  uint32_t limit = 0;
  const auto read = std::from_chars(words.data(), words.data() + words.size(), limit);
  if (read.ec != std::errc{} || read.ptr != words.data() + words.size() || limit < 1 ||
      limit > report_format::kMostMilliseconds)
    throw Error(fmt::format(
        "PTXBUILDER_WATCHDOG is '{}', but must be a limit of 1 to {} ms for each wait of a kernel", words,
        report_format::kMostMilliseconds));
  scope_.emplace(limit);
}

}  // namespace ptxbuilder::kernels
