// Reads a file's text.
#pragma once

#include <cstdint>
#include <string>

namespace ptxbuilder {

// Returns all bytes of a file or a pipe. Throws Error that begins with the path if it cannot be read, or if
// it does not end within `most` bytes, such as a device.
std::string file_text(const std::string& path, uint64_t most = uint64_t{1} << 30);

}  // namespace ptxbuilder
