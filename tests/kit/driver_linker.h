// Compiles PTX to a cubin with the linker of the CUDA driver, for machines with a GPU but without ptxas.
#pragma once

#include <string>

namespace ptxbuilder::runtime {

struct JitResult {
  std::string cubin;
  std::string log;  // registers, spills and warnings, in the words of the driver's ptxas
};

// Compiles for the first GPU that runs `target` code. Throws an Error with the compiler's log if the PTX is
// refused, or if there is no such GPU. The linker compiles relocatable code, in which setmaxnreg has no
// effect (advisory C7504), so kernels that use it should be loaded as PTX text instead: see Device::load.
// Line numbers are not requested: see JitLog.
JitResult assemble_with_driver(const std::string& ptx, const std::string& target = "sm_90a",
                               const std::string& library = "libcuda.so.1");

}  // namespace ptxbuilder::runtime
