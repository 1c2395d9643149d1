// Reads code from a file, or from a kernel of this program.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ptxbuilder/compile/device_code.h"

namespace ptxbuilder::command {

// All device code of a file. `file` owns the text that `all` refers to.
struct CodeSource {
  std::shared_ptr<const std::string> file;
  std::vector<DeviceCode> all;
};

// Reads code. `from` is the path of a file with PTX or other device code (ptxbuilder/compile/device_code.h);
// "-" for PTX on standard input; or "kernel:NAME bm=128 ..." to generate the PTX of a kernel with these
// fields. Throws Error if the file cannot be read or is corrupt, or if a kernel, field or value does not
// exist.
CodeSource code_source(const std::string& from);

// Returns the PTX of `from` that contains `kernel`; `kernel` may be empty: see choose_code().
std::string ptx_source(const std::string& from, const std::string& kernel = "");

// The placeholder for `from` in the help of commands.
extern const char* const ptx_source_help;

}  // namespace ptxbuilder::command
