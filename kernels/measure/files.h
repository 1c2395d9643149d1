// Whole text files, read and written at once.
#pragma once

#include <string>

namespace ptxbuilder::bench {

// "" where there is no such file. Throws Error when it cannot be read.
std::string read_file_if_any(const std::string& path);

// Makes the folder if need be; a reader never sees half of the file. Throws Error when it cannot be written.
void write_file(const std::string& path, const std::string& text);

}  // namespace ptxbuilder::bench
