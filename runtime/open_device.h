// Chooses a device by the name that --device takes.
#pragma once

#include "runtime/device.h"
#include "runtime/emulator/emulator.h"

namespace ptxbuilder::runtime {

// "cuda", "emulator", or "auto", which takes a GPU that can run `target` code ("sm_90a"), else the emulator,
// to which alone the last argument speaks. Throws Error that says why there is no such device.
std::unique_ptr<Device> open_device(const std::string& name, const std::string& target = "sm_90a",
                                    const EmulatorOptions& emulator = {});

}  // namespace ptxbuilder::runtime
