// Passes on what a launch reports while it is still running.
#include <fmt/format.h>

#include "ptxbuilder/demangle.h"
#include "runtime/emulator/exploration.h"
#include "runtime/emulator/machine/machine.h"

namespace ptxbuilder::runtime::emulator {

std::string schedule_of(const EmulatorOptions& options) {
  return options.exploration ? fmt::format("schedule {}", options.exploration->schedule())
                             : fmt::format("seed {}", options.seed);
}

void Reports::note(const std::string& kernel, uint32_t pc, const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (noted_.emplace(kernel, pc).second) options_.note(demangled(text));
}

void Reports::find(const std::string& kernel, uint32_t pc, const EmulatorError& fault) {
  const std::lock_guard lock(mutex_);
  if (found_.emplace(kernel, pc, fault.fault()).second)
    options_.finding({fault.fault(), fault.ptx_line(),
                      demangled(fmt::format("{}\n  {}", fault.what(), schedule_of(options_)))});
}

bool Reports::has_found(const std::string& kernel, uint32_t pc, Fault fault) {
  if (!options_.finding) return false;
  const std::lock_guard lock(mutex_);
  return found_.contains({kernel, pc, fault});
}

}  // namespace ptxbuilder::runtime::emulator
