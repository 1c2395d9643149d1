#include "ptxbuilder/log.h"

#include <cstdio>
#include <mutex>
#include <shared_mutex>

namespace ptxbuilder {
namespace {

struct Log {
  std::shared_mutex mutex;  // a sink is called under it, so that it is known when it is called no more
  LogSink sink;
};

Log& the_log() {
  static Log& log = *new Log;  // to the end of the process, since other threads may log meanwhile
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
