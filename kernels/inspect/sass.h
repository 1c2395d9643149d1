// Disassembles a kernel in a cubin with nvdisasm. Do not include this header together with a header that uses
// the library, because the syntax tree of PTX declares a name that conflicts with the library's ptx().
#pragma once

#include <string>

#include "ptxbuilder/analysis/sass.h"

namespace ptxbuilder::command {

// Returns the machine code, and the numbers of registers and the stack size from the cubin. `nvdisasm` is the
// path of the tool, or "" to search for it. `kernel` may be empty if the cubin has only one kernel. If
// `kernel` does not identify a kernel, throws an Error that lists the kernels.
analysis::SassKernel sass_of(const std::string& cubin, const std::string& kernel, const std::string& nvdisasm,
                             bool ptx_lines = false);

}  // namespace ptxbuilder::command
