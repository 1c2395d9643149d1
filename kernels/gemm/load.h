// A kernel on a device: compiled by ptxas where there is one, else by the driver, or read as text by the
// emulator.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ptxbuilder/compile/compile.h"
#include "runtime/loaded_kernel.h"

namespace ptxbuilder::kernels {

struct LoadOptions {
  std::string ptxas = {};         // a file; else PATH, CUDA_PATH and /usr/local are searched
  bool driver_assembles = false;  // though there is a ptxas
  bool cache = true;              // keep cubins on disk
};

// Makes what the device takes: cubins, or PTX alone where the device reads PTX or no ptxas is found. Throws
// Error when `ptxas` is named and not there.
Compiler compiler_for(const runtime::Device& device, const LoadOptions& options = {});

// Throws Error when the device refuses the kernel, and when its driver, having compiled PTX, reports what
// costs speed and is not in `waivers` (see check(Notes)).
std::unique_ptr<runtime::LoadedKernel> load(runtime::Device& device, const Compiled& compiled,
                                            const std::vector<std::string>& waivers = {});

// Compiles and loads. Throws Error from the builder's checks, ptxas and the driver.
std::unique_ptr<runtime::LoadedKernel> load(runtime::Device& device, const Compiler& compiler, Kernel kernel);

// Lets pass what ptxas says of a kernel that wants more registers than there are, which is right, but slow:
// spills, a stack, and wgmmas that wait for each other.
void waive_lack_of_registers(Kernel& kernel);

}  // namespace ptxbuilder::kernels
