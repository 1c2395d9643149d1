// Runs launches of several devices at once.
#pragma once

#include <chrono>
#include <functional>

#include "runtime/emulator/machine/machine.h"

namespace ptxbuilder::runtime::emulator {

// `next` returns the next launch of a device once the device's previous launch is over, or null if there is
// none. A seed chooses how they interleave; with some seeds, one device is late. Throws EmulatorError as
// run_grid() does, and if all launches wait for each other.
void run_grids_together(uint32_t devices, uint64_t seed, const std::function<Grid*(uint32_t device)>& next,
                        std::chrono::steady_clock::time_point deadline, EmulatorStatistics& statistics);

}  // namespace ptxbuilder::runtime::emulator
