// Logs messages other than errors, either to standard error or to a sink.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace ptxbuilder {

enum class LogLevel : uint8_t { warning = 1 };

using LogSink = std::function<void(LogLevel level, const std::string& text)>;

// Logs one line. `text` must not end with a newline.
void log(LogLevel level, const std::string& text);

// Makes `sink` receive every message that the process logs from now on. The sink is called in the thread that
// logs, possibly in several threads at once. An empty sink restores standard error. When this function
// returns, no thread is executing the previous sink. A sink must not call the library or throw.
void log_to(LogSink sink);

}  // namespace ptxbuilder
