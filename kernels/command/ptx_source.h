// PTX text, from a file or from a kernel of this program.
#pragma once

#include <string>

namespace ptxbuilder::command {

// `from` is a file, "-" for standard input, or "kernel:NAME bm=128 ...", a kernel with fields. Throws Error
// where the file cannot be read, and for a kernel, field or value that is not there.
std::string ptx_source(const std::string& from);

// How the help of a command calls it.
extern const char* const ptx_source_help;

}  // namespace ptxbuilder::command
