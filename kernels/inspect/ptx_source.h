// Code from a file, or from a kernel of this program.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ptxbuilder/compile/device_code.h"

namespace ptxbuilder::command {

// All code of a file, which is kept for it.
struct CodeSource {
  std::shared_ptr<const std::string> file;
  std::vector<DeviceCode> all;
};

// `from` is a file with PTX or other device code (ptxbuilder/compile/device_code.h), "-" for PTX on standard
// input, or "kernel:NAME bm=128 ...", a kernel with fields, whose PTX is made. Throws Error where the file
// cannot be read or is broken, and for a kernel, field or value that is not there.
CodeSource code_source(const std::string& from);

// The PTX among it that has `kernel`, which may be empty: see choose_code().
std::string ptx_source(const std::string& from, const std::string& kernel = "");

// The help of a command calls it this.
extern const char* const ptx_source_help;

}  // namespace ptxbuilder::command
