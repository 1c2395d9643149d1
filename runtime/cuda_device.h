// Opens a GPU through the CUDA driver.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "runtime/device.h"

namespace ptxbuilder::runtime {

// Opens GPU `ordinal` or, if it is not set, the first GPU that runs code for `target`. The driver numbers the
// GPUs that CUDA_VISIBLE_DEVICES leaves visible. Throws an Error that states why no GPU is suitable.
// `library` is the path of the driver's library.
std::unique_ptr<Device> open_cuda_device(const std::string& target = "sm_90a",
                                         const std::string& library = "libcuda.so.1",
                                         std::optional<int> ordinal = std::nullopt);

}  // namespace ptxbuilder::runtime
