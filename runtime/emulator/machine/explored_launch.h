// Runs all clusters of one launch step by step, in the order that an Exploration chooses.
#pragma once

#include <chrono>

#include "runtime/emulator/machine/machine.h"

namespace ptxbuilder::runtime::emulator {

// Runs the launch like run_grid(), and also throws Exploration::Abandoned.
void run_explored(const Grid& grid, std::chrono::steady_clock::time_point deadline,
                  EmulatorStatistics& statistics);

}  // namespace ptxbuilder::runtime::emulator
