// Unpacks LZ4's block format, in which fatbins store code that nvcc compressed for speed.
#pragma once

#include <string>
#include <string_view>

namespace ptxbuilder {

// Returns the unpacked contents of a block, which must have `size` bytes (LZ4 Block Format Description,
// 2022). Throws Error that names the byte of the block, and the rule that it breaks.
std::string unpack_lz4(std::string_view block, size_t size);

}  // namespace ptxbuilder
