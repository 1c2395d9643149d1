// A file's text.
#pragma once

#include <cstdint>
#include <string>

namespace ptxbuilder {

// All bytes of a file, or of a pipe. Throws Error that begins with the path where it cannot be read, or does
// not end within `most` bytes, as a device never does.
std::string file_text(const std::string& path, uint64_t most = uint64_t{1} << 30);

}  // namespace ptxbuilder
