// Reads and writes text files.
#pragma once

#include <string>

namespace ptxbuilder::bench {

// Returns the contents of a file, or "" if the file does not exist. Throws Error if an existing file cannot
// be read.
std::string read_file_if_any(const std::string& path);

// Writes a file, and creates its folder if needed. Other processes never read a partial file. Throws Error if
// the file cannot be written.
void write_file(const std::string& path, const std::string& text);

}  // namespace ptxbuilder::bench
