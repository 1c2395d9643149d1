#include "ptxbuilder/log.h"

#include <cstdio>
#include <mutex>
#include <shared_mutex>

namespace ptxbuilder {
namespace {

struct Log {
  std::shared_mutex mutex;  // held while a sink runs, so that log_to() can wait until the sink returns
  LogSink sink;
};

Log& the_log() {
  static Log& log = *new Log;  // never destroyed, since other threads may still log while the process exits
  return log;
}

}  // namespace

void log(LogLevel level, const std::string& text) {
  Log& all = the_log();
  const std::shared_lock lock(all.mutex);
  if (all.sink) return all.sink(level, text);
  const std::string line = "warning: " + text + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void log_to(LogSink sink) {
  Log& all = the_log();
  const std::unique_lock lock(all.mutex);
  all.sink = std::move(sink);
}

}  // namespace ptxbuilder
