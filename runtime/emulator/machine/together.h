// Runs launches of several devices at once.
#pragma once

#include <chrono>
#include <functional>

#include "runtime/emulator/machine/machine.h"

namespace ptxbuilder::runtime::emulator {

// `next` gives the next launch of a device, whose launch before it is then over, or null where there is none.
// A seed chooses how they interleave; with some, one device is late. Throws EmulatorError as run_grid() does,
// and where all wait for each other.
void run_grids_together(uint32_t devices, uint64_t seed, const std::function<Grid*(uint32_t device)>& next,
                        std::chrono::steady_clock::time_point deadline, EmulatorStatistics& statistics);

}  // namespace ptxbuilder::runtime::emulator
