// Writes the events of a launch as a Chrome trace, in units of emulated steps.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/emulator/machine/machine.h"

namespace ptxbuilder::runtime::emulator {

// The trace has one process for each CTA. A process has one row for each warp, one for the warp's
// asynchronous operations, and one for each mbarrier. Times are emulated steps, shown as microseconds.
// Threads may call the functions concurrently.
class Trace {
 public:
  explicit Trace(std::string path) : path_(std::move(path)) {}

  void begin(const Grid& grid);
  void ran(const Warp& warp, uint64_t from, uint64_t to, uint32_t pc);  // a burst that ended at `pc`
  void operation(const Warp& warp, const char* kind, uint64_t from, uint64_t to, uint32_t pc);
  void phase(Mbarrier& barrier, const Cluster& cluster);
  void write() const;  // throws an Error if the file cannot be written

 private:
  void event(const Cta& cta, const std::string& row, const std::string& name, uint64_t from, uint64_t to,
             uint32_t line);

  std::string path_;
  std::mutex mutex_;
  std::vector<std::string> events_;
  std::map<std::string, size_t> processes_, rows_;
  std::string kernel_;
};

}  // namespace ptxbuilder::runtime::emulator
