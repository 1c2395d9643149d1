// Checks a cubin before the driver reads it, because the driver does not know the size of the image and does
// not check the offsets in it.
#pragma once

#include <string>

namespace ptxbuilder::runtime {

bool is_cubin(const std::string& image);  // checks the ELF magic number

// Throws an Error if the image is not a complete CUDA ELF file, or if it does not contain a kernel with this
// name. In the second case, the error lists the kernels in the image.
void check_cubin(const std::string& image, const std::string& kernel);

}  // namespace ptxbuilder::runtime
