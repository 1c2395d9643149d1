// Runs launches on several devices at once.
#pragma once

#include <chrono>
#include <functional>

#include "runtime/emulator/machine/machine.h"

namespace ptxbuilder::runtime::emulator {

// `next` returns the next launch of a device after the device's previous launch has ended, or null if there
// is none. The seed determines how the launches interleave; with some seeds, one device is late. Throws an
// EmulatorError like run_grid(), and also if all launches wait for each other.
void run_grids_together(uint32_t devices, uint64_t seed, const std::function<Grid*(uint32_t device)>& next,
                        std::chrono::steady_clock::time_point deadline, EmulatorStatistics& statistics);

}  // namespace ptxbuilder::runtime::emulator
