// The machine code of a cubin's kernel, by nvdisasm. No other header that knows the library may be included
// with it, since the syntax tree of PTX has the name of its `ptx()`.
#pragma once

#include <string>

#include "ptxbuilder/analysis/sass.h"

namespace ptxbuilder::command {

// This has what the cubin says of registers and stack. `nvdisasm` is a file, or "" to look for it. An empty
// name means the only kernel. Throws Error that lists the kernels where that does not choose one.
analysis::SassKernel sass_of(const std::string& cubin, const std::string& kernel, const std::string& nvdisasm,
                             bool ptx_lines = false);

}  // namespace ptxbuilder::command
