// Opens a device that is selected by name, as for --device.
#pragma once

#include "runtime/device.h"
#include "runtime/emulator/emulator.h"

namespace ptxbuilder::runtime {

// Opens "cuda", the first GPU that can run `target` code ("sm_90a"); "cuda:1", the GPU with this number;
// "emulator", the only device to which the options `emulator` apply; or "auto", which is "cuda" if there is
// such a GPU, and otherwise the emulator. Throws Error that states why there is no such device.
std::unique_ptr<Device> open_device(const std::string& name, const std::string& target = "sm_90a",
                                    const EmulatorOptions& emulator = {}, Where where = Where::here());

}  // namespace ptxbuilder::runtime
