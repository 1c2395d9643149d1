// Code from a file, or from a kernel of this program.
#pragma once

#include <string>
#include <vector>

#include "ptxbuilder/compile/device_code.h"

namespace ptxbuilder::command {

// `from` is a file with PTX or other device code (ptxbuilder/compile/device_code.h), "-" for PTX on standard
// input, or "kernel:NAME bm=128 ...", a kernel with fields, of which the PTX is made. Throws Error where the
// file cannot be read or is broken, and for a kernel, field or value that is not there.
std::vector<DeviceCode> code_source(const std::string& from);

// The PTX among it that has `kernel`, which may be empty: see choose_code().
std::string ptx_source(const std::string& from, const std::string& kernel = "");

// How the help of a command calls it.
extern const char* const ptx_source_help;

}  // namespace ptxbuilder::command
