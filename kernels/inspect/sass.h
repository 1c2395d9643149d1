// The machine code of a kernel in a cubin, from nvdisasm. Do not include this header together with one that
// uses the library, since the syntax tree of PTX uses the name of its `ptx()`.
#pragma once

#include <string>

#include "ptxbuilder/analysis/sass.h"

namespace ptxbuilder::command {

// Returns the machine code, and what the cubin says about registers and stack. `nvdisasm` is a file, or "" to
// search for it. An empty name means the only kernel. Throws Error that lists the kernels if the name does
// not identify one.
analysis::SassKernel sass_of(const std::string& cubin, const std::string& kernel, const std::string& nvdisasm,
                             bool ptx_lines = false);

}  // namespace ptxbuilder::command
