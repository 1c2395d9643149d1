// The device behind the CUDA driver.
#pragma once

#include <memory>
#include <string>

#include "runtime/device.h"

namespace ptxbuilder::runtime {

// Opens the first GPU that runs code for `target`; CUDA_VISIBLE_DEVICES chooses among several. Throws Error
// that says why there is none. `library` is the driver's file.
std::unique_ptr<Device> open_cuda_device(const std::string& target = "sm_90a",
                                         const std::string& library = "libcuda.so.1");

}  // namespace ptxbuilder::runtime
