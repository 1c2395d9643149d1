// Opens a device that is selected by name, as with the option --device.
#pragma once

#include "runtime/device.h"
#include "runtime/emulator/emulator.h"

namespace ptxbuilder::runtime {

// Opens the device with this name. "cuda" is the first GPU that can run `target` code ("sm_90a"), and
// "cuda:1" is the GPU with this number. "emulator" is the only device to which the options `emulator` apply.
// "auto" is "cuda" if there is such a GPU, and otherwise the emulator. Throws an Error that states why there
// is no such device.
std::unique_ptr<Device> open_device(const std::string& name, const std::string& target = "sm_90a",
                                    const EmulatorOptions& emulator = {}, Where where = Where::here());

}  // namespace ptxbuilder::runtime
