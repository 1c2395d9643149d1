// Reads the text of a file.
#pragma once

#include <cstdint>
#include <string>

namespace ptxbuilder {

// Returns all bytes of a file or a pipe. If the file cannot be read, or is longer than `most` bytes (an
// endless device, for example), the function throws an Error that begins with the path.
std::string file_text(const std::string& path, uint64_t most = uint64_t{1} << 30);

}  // namespace ptxbuilder
