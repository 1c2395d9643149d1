// Opens devices of the CUDA driver.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "runtime/device.h"

namespace ptxbuilder::runtime {

// Opens GPU `ordinal`, in the driver's numbering of the GPUs that CUDA_VISIBLE_DEVICES leaves visible, or,
// without a number, the first GPU that runs code for `target`. Throws Error that states why no GPU fits.
// `library` is the driver's file.
std::unique_ptr<Device> open_cuda_device(const std::string& target = "sm_90a",
                                         const std::string& library = "libcuda.so.1",
                                         std::optional<int> ordinal = std::nullopt);

}  // namespace ptxbuilder::runtime
