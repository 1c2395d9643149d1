// Opens a device by its name for --device.
#pragma once

#include "runtime/device.h"
#include "runtime/emulator/emulator.h"

namespace ptxbuilder::runtime {

// "cuda", the first GPU that can run `target` code ("sm_90a"); "cuda:1", the GPU of this number; "emulator",
// the only device that `emulator` affects; or "auto", which is "cuda" if there is such a GPU, else the
// emulator. Throws Error that says why there is no such device.
std::unique_ptr<Device> open_device(const std::string& name, const std::string& target = "sm_90a",
                                    const EmulatorOptions& emulator = {}, Where where = Where::here());

}  // namespace ptxbuilder::runtime
