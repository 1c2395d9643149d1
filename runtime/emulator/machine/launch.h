// Runs all clusters of one launch.
#pragma once

#include <chrono>

#include "runtime/emulator/machine/machine.h"

namespace ptxbuilder::runtime::emulator {

// Runs the launch and adds its counts to `statistics`. Throws an EmulatorError if the launch fails, or has
// not finished by `deadline`.
void run_grid(const Grid& grid, std::chrono::steady_clock::time_point deadline,
              EmulatorStatistics& statistics);

}  // namespace ptxbuilder::runtime::emulator
