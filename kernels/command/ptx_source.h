// PTX text, from a file or from a kernel of this program.
#pragma once

#include <string>
#include <vector>

namespace ptxbuilder::command {

// `from` is a file, "-" for standard input, or "kernel:NAME", which is built with `fields` such as "bm=128".
// Throws Error where the file cannot be read, and for a kernel or field that is not there.
std::string ptx_source(const std::string& from, const std::vector<std::string>& fields);

}  // namespace ptxbuilder::command
