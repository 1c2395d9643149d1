// A first look at a cubin, before the driver reads it: the driver does not learn its size and trusts every
// offset inside.
#pragma once

#include <string>

namespace ptxbuilder::runtime {

bool is_cubin(const std::string& image);  // by the ELF magic number

// Throws Error when the image is not a whole CUDA ELF file, or holds no kernel of that name (which it then
// lists).
void check_cubin(const std::string& image, const std::string& kernel);

}  // namespace ptxbuilder::runtime
