// LZ4's block format, in which fatbins keep code where nvcc was asked for speed.
#pragma once

#include <string>
#include <string_view>

namespace ptxbuilder {

// The bytes that a block unpacks to, which must be `size` bytes (LZ4 Block Format Description, 2022). Throws
// Error that names the byte of the block and the rule that it breaks.
std::string unpack_lz4(std::string_view block, size_t size);

}  // namespace ptxbuilder
