// Runs all clusters of one launch step by step, in the order that an Exploration picks.
#pragma once

#include <chrono>

#include "runtime/emulator/machine/machine.h"

namespace ptxbuilder::runtime::emulator {

// Does what run_grid() does, and also throws Exploration::Abandoned.
void run_explored(const Grid& grid, std::chrono::steady_clock::time_point deadline,
                  EmulatorStatistics& statistics);

}  // namespace ptxbuilder::runtime::emulator
