// The library says here what is worth saying where nothing failed: on standard error, or to who asks for it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace ptxbuilder {

enum class LogLevel : uint8_t { warning = 1 };

using LogSink = std::function<void(LogLevel level, const std::string& text)>;

// One line, without its end.
void log(LogLevel level, const std::string& text);

// The sink gets all that the process logs from now on, in the thread that logs it, and several threads may at
// once; an empty one restores standard error. The one before is running nowhere when this returns. A sink
// calls nothing of the library and throws nothing.
void log_to(LogSink sink);

}  // namespace ptxbuilder
