// Runs all clusters of one launch.
#pragma once

#include <chrono>

#include "runtime/emulator/machine/machine.h"

namespace ptxbuilder::runtime::emulator {

// Throws EmulatorError if the launch fails, or is not done at `deadline`. Adds to `statistics`.
void run_grid(const Grid& grid, std::chrono::steady_clock::time_point deadline,
              EmulatorStatistics& statistics);

}  // namespace ptxbuilder::runtime::emulator
