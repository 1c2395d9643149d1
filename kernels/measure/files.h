// Reads and writes whole text files.
#pragma once

#include <string>

namespace ptxbuilder::bench {

// Returns the contents, or "" if the file does not exist. Throws Error if it cannot be read.
std::string read_file_if_any(const std::string& path);

// Writes the file, and creates its folder if needed. Readers never see a partial file. Throws Error if the
// file cannot be written.
void write_file(const std::string& path, const std::string& text);

}  // namespace ptxbuilder::bench
